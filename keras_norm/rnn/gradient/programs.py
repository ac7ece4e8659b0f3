"""What the programs of the two loops share: vectors, norms at a timestep, arrays, traces.

Batch and time may be of any size: XLA compiles a program for each pair that comes by.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.rnn.gradient.norms import BatchNormStep, Statistics
from keras_norm.rnn.gradient.products import split
from keras_norm.rnn.gradient.spec import Place, Spec

# Traces that are kept, the latest used: some eight for each kind of cell, its norms and its units,
# of which two or three are XLA programs.
TRACES = 512


class Vectors(NamedTuple):
    """The gains and biases of all groups of x W, of h U, and of the state norm."""

    kernel_gamma: Any
    kernel_beta: Any
    recurrent_gamma: Any
    recurrent_beta: Any
    state_gamma: Any
    state_beta: Any

    def of(self, side: str) -> tuple[Any, Any]:
        """The gain and the bias of one side, named as in a `Place`."""
        return getattr(self, f"{side}_gamma"), getattr(self, f"{side}_beta")


class Arguments(NamedTuple):
    """What a recurrence is a function of.

    `xs` is [x (batch, time, features)]; `states` are the initial states (batch, units); `kernel` is
    W (features, columns), `recurrent` U (units, columns); `vectors` are the gains and biases.

    In a part of the batch the xs are time first, and one for each gate where each has its own
    dropout; W and U are under `products.centre` as far as `Spec.centred`.
    """

    xs: Sequence[Any]
    states: Sequence[Any]
    kernel: Any
    recurrent: Any
    vectors: Vectors


class Setting(NamedTuple):
    """What a recurrence has besides: no gradient goes there.

    `moving` are the moving statistics (time, width) of each batch norm, in the order of
    `Spec.batch_norms`; `mask` is [] or [bool (batch, time, 1)]; `input_dropout` and `dropout` are
    the factors of x (batch, features) and of h (batch, units), none, one, or one for each gate. In
    a part of the batch all are time first, `dropout` alone is left of the factors, and `steps` is
    the number of timesteps, after which all is padding.
    """

    moving: list[Statistics]
    mask: list[Any]
    input_dropout: list[Any]
    dropout: list[Any]
    steps: Any = 0


def batch_norms_at(
    spec: Spec, vectors: Vectors, alive: list[Any], **statistics: list[Statistics]
) -> dict[Place, BatchNormStep]:
    """The batch norms at one timestep; `moving` or `statistics` are those of `BatchNormStep`."""
    norms = {}
    for k, (place, norm) in enumerate(spec.batch_norms.items()):
        groups = [split(vector, spec.widths(place.side)) for vector in vectors.of(place.side)]
        gamma, beta = [of_groups[place.group] for of_groups in groups]
        given = {name: rows[k] for name, rows in statistics.items()}
        norms[place] = BatchNormStep(norm, gamma, beta, alive, **given)
    return norms


def array(dtype: Any, time: Any, *shape: int | None) -> Any:
    """An array to be written in a loop, of `time` tensors of a shape."""
    return tf.TensorArray(dtype, time, element_shape=shape)


def unstack(tensors: Any) -> Any:
    """Arrays to be read in a loop, of any structure of tensors."""
    # The tensor brings the size: to ask for it is five operations an array.
    empty = functools.partial(tf.TensorArray, size=0, dynamic_size=True, clear_after_read=False)
    return tf.nest.map_structure(
        lambda x: empty(x.dtype, element_shape=x.shape[1:]).unstack(x), tensors
    )


def read(arrays: Any, t: Any) -> Any:
    """The elements of a structure of arrays."""
    return tf.nest.map_structure(lambda a: a.read(t), arrays)


def read_gates(spec: Spec, a: Any, t: Any) -> list[Any]:
    """The gates of (time, batch, columns) at one timestep.

    Each is a slice of the whole: XLA does not vectorize what takes gates from one slice.
    """
    size = [1, tf.shape(a)[1], spec.units]
    starts = range(0, sum(spec.widths()), spec.units)
    return [tf.slice(a, [t, 0, start], size)[0] for start in starts]


def stack(arrays: Any) -> Any:
    """A structure of arrays as tensors."""
    return tf.nest.map_structure(lambda a: a.stack(), arrays)


@functools.lru_cache(maxsize=TRACES)
def traced(
    function: Callable[..., Any], *settings: Any, jit_compile: bool = False
) -> Callable[..., Any]:
    """The function of these settings. One trace of it serves every batch and time, and all layers.

    It calls a concrete function: calling a `tf.function` with jit_compile puts its caller into the
    context of XLA for as long as it takes, in which TensorFlow cannot differentiate a conditional.
    """
    given = functools.partial(function, *settings)
    program = tf.function(given, jit_compile=jit_compile, autograph=False)

    def run(*arguments: Any) -> Any:
        signature = tf.nest.map_structure(_of_any_size, arguments)
        # What is traced there sees nothing of its first caller, and can have no tape of its own.
        with tf.init_scope() if jit_compile else contextlib.nullcontext():
            concrete = program.get_concrete_function(*signature)
        return concrete(*arguments)

    return run


# As an XLA program.
compiled = functools.partial(traced, jit_compile=True)


def _of_any_size(x: Any) -> tf.TensorSpec:
    """What an argument is but for its sizes: all but the last are batch or time."""
    return tf.TensorSpec([None] * (x.shape.rank - 1) + x.shape[-1:].as_list(), x.dtype)
