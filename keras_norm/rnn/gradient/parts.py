"""The parts of a batch, filled up to sizes that programs are compiled for, and what they give back.

XLA compiles a program for every size that comes by. Where the graph does not know them (`fit`
leaves the batch open), lengths and the rows of a part are rounded up.
"""

from typing import Any, NamedTuple

import tensorflow as tf
from keras import ops

from keras_norm.ops.projection import under
from keras_norm.rnn.gradient.products import centre
from keras_norm.rnn.gradient.programs import Arguments, Setting
from keras_norm.rnn.gradient.spec import Spec

# Rounded to these, a hundred lengths are a dozen programs, and a smaller last batch of 32 has the
# program of the others.
LENGTHS = sorted(n * 2**k for n in (2, 3) for k in range(28))
ROWS = [1, 2, 4, 16, *(16 * n for n in LENGTHS[:-8])]


class Plan(NamedTuple):
    """How the batch is run: in how many parts, side by side; whether batch and time are open.

    Layers that return sequences have the programs of those that do not: a stack compiles once.
    """

    parts: int
    open_batch: bool
    open_time: bool
    return_sequences: bool


class Parting(NamedTuple):
    """How a batch is cut into parts.

    Args:
        parts: how many.
        batch: its rows.
        time: its timesteps.
        rows: those of a part, and
        length: its timesteps, with what fills them up.
    """

    parts: int
    batch: Any
    time: Any
    rows: Any
    length: Any

    def split(self, x: Any) -> list[Any]:
        """X (batch, ...) of each part."""
        return tf.split(_filled(x, self.parts * self.rows - self.batch), self.parts)

    def split_over_time(self, x: Any) -> list[Any]:
        """X (batch, time, ...) of each part, time first."""
        missing = self.parts * self.rows - self.batch, self.length - self.time
        return tf.split(ops.swapaxes(_filled(x, *missing), 0, 1), self.parts, axis=1)

    def join(self, *parts: Any) -> Any:
        """What was `split`."""
        return tf.concat(parts, axis=0)[: self.batch]

    def join_over_time(self, *parts: Any) -> Any:
        """What was `split_over_time`."""
        return ops.swapaxes(tf.concat(parts, axis=1), 0, 1)[: self.batch, : self.time]


def parting_of(plan: Plan, sequences: Any) -> Parting:
    """The sizes of sequences (batch, time, features), and of their parts."""
    batch, time, _ = tf.unstack(tf.shape(sequences))
    rows, length = -(-batch // plan.parts), time
    if plan.open_batch:
        # As many as two parts would have together: so a batch norm's programs are as few.
        rows = _rounded(-(-batch // 2), ROWS) * (2 // plan.parts)
    if plan.open_time:
        length = _rounded(time, LENGTHS)
    return Parting(plan.parts, batch, time, rows, length)


def parts_of(
    spec: Spec, parting: Parting, given: Arguments, setting: Setting
) -> list[tuple[Arguments, Setting]]:
    """The parts of the batch."""
    parts, batch, time, rows, length = parting
    xs = under(_factors(spec, setting.input_dropout), tf.cast(given.xs[0], spec.dtype))
    # For each part its own of each array; [] where there is none.
    xs, states, mask, dropout = (
        list(map(list, zip(*map(split, arrays), strict=True))) or [[]] * parts
        for split, arrays in (
            (parting.split_over_time, xs),
            (parting.split, [tf.cast(state, spec.dtype) for state in given.states]),
            (parting.split_over_time, setting.mask),
            (parting.split, [tf.cast(factor, spec.dtype) for factor in setting.dropout]),
        )
    )
    moving = tf.nest.map_structure(lambda row: _filled(row, length - time), setting.moving)
    # A part without rows takes one turn: pfor stacks no array that nothing was written to.
    steps = [tf.where(k * rows < batch, time, tf.minimum(time, 1)) for k in range(parts)]
    kernels = _centred(spec, given.kernel, given.recurrent)
    return [
        (
            Arguments(xs[k], states[k], *kernels, given.vectors),
            Setting(moving, mask[k], [], dropout[k], steps[k]),
        )
        for k in range(parts)
    ]


def gradient_of_parts(
    spec: Spec,
    parting: Parting,
    given: Arguments,
    input_dropout: list[Any],
    gradients: list[Arguments],
) -> Arguments:
    """The gradients of all that is given, from those of the parts."""
    xs, states, d_kernel, d_recurrent, d_vectors = zip(*gradients, strict=True)
    dxs, d_states = list(map(parting.join_over_time, *xs)), map(parting.join, *states)
    if input_dropout:
        factors = _factors(spec, input_dropout)
        dxs = [dx * factor for dx, factor in zip(dxs, factors, strict=True)]
    kernel, recurrent = _centred(spec, tf.add_n(d_kernel), tf.add_n(d_recurrent))
    return Arguments(
        [tf.cast(tf.add_n(dxs), given.xs[0].dtype)],
        [tf.cast(d, state.dtype) for d, state in zip(d_states, given.states, strict=True)],
        kernel,
        recurrent,
        tf.nest.map_structure(lambda *of_parts: tf.add_n(of_parts), *d_vectors),
    )


def _factors(spec: Spec, masks: list[Any]) -> list[Any]:
    """Dropout masks (batch, features) as factors of sequences."""
    return [tf.cast(mask, spec.dtype)[:, None, :] for mask in masks]


def _centred(spec: Spec, kernel: Any, recurrent: Any) -> tuple[Any, Any]:
    """The kernels centred as far as the spec tells; and so is the gradient of them."""
    sides = (("kernel", kernel), ("recurrent", recurrent))
    return tuple(centre(kernel, spec.widths(), spec.centred(side)) for side, kernel in sides)


def _rounded(n: Any, sizes: list[int]) -> Any:
    """The least of the sizes that n does not exceed."""
    return tf.reduce_min(tf.where(tf.constant(sizes) < n, sizes[-1], sizes))


def _filled(x: Any, *missing: Any) -> Any:
    """X with so many zeros after it, along its first axes."""
    return tf.pad(x, [[0, n] for n in missing] + [[0, 0]] * (len(x.shape) - len(missing)))
