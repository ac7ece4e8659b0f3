"""Traced TensorFlow programs that serve all batch sizes, lengths and layers."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_norm.rnn.core.recurrence import Tree
from keras_norm.rnn.core.sequence import Body
from keras_norm.typing import Nest, Tensor, Tensors

# Largest number of traced functions in the cache, about 3 MiB each. A recurrence has at most five:
# a backward pass, and forward passes with and without residuals and the output sequence. Each has a
# trace for every number of features. A function that a model uses lives as long as the model.
TRACES = 32


@functools.lru_cache(maxsize=TRACES)
def traced(function: Callable[..., Nest], *settings: Any) -> Callable[..., Nest]:
    """Return a function that runs `function(*settings, weights, *arguments)` as a traced program.

    The weights and the arguments are trees of tensors. All but the last dimension of each argument
    is dynamic, so that one trace serves all batch sizes and lengths.
    """
    program = tf.function(functools.partial(function, *settings), autograph=False)

    def run(weights: Tree, *arguments: Nest) -> Nest:
        static = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), weights)
        dynamic = tf.nest.map_structure(_any_size, arguments)
        return program.get_concrete_function(static, *dynamic)(weights, *arguments)

    return run


class CompiledLoop:
    """A loop over time as a program that XLA compiles; see `sequence.Loop`.

    Args:
        steps: number of timesteps to run, an int tensor. The arrays may be longer; the rows of
            further timesteps are zeros in the written arrays.
    """

    compiles = True
    joins_gates = False

    def __init__(self, steps: Tensor) -> None:
        self.steps = steps

    def __call__(
        self,
        body: Body,
        carry: Nest,
        arrays: Tree,
        shared: Tree,
        *,
        initial: Tensors | None = None,
        reverse: bool = False,
    ) -> tuple[Nest, Tree]:
        """Run the loop over time; see `sequence.Loop.__call__`."""
        arguments = (self.steps, carry, arrays, shared, [] if initial is None else initial)
        run = functools.partial(_run_loop, body, reverse)
        if not self.compiles:
            return run(*arguments)
        program = tf.function(run, jit_compile=True, autograph=False)
        # Call a concrete function in place of `program`. If `program` is called, TensorFlow treats
        # the caller as XLA code, and cannot differentiate a conditional in the caller.
        signature = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), arguments)
        with tf.init_scope():
            concrete = program.get_concrete_function(*signature)
        _keep_alive(concrete)
        results: tuple[Nest, Tree] = concrete(*arguments)
        return results


class TracedLoop(CompiledLoop):
    """An uncompiled loop over time, which TensorFlow can differentiate."""

    compiles = False


def _run_loop(
    body: Body,
    reverse: bool,
    steps: Tensor,
    carry: Nest,
    arrays: Tree,
    shared: Tree,
    initial: Tensors,
) -> tuple[Nest, Tree]:
    time = tf.shape(tf.nest.flatten(arrays["gates"])[0])[0]
    # Create each TensorArray with size 0, because `unstack` sets its size. To compute the size from
    # a shape would take five operations for each array.
    empty = functools.partial(tf.TensorArray, size=0, dynamic_size=True, clear_after_read=False)
    read = tf.nest.map_structure(
        lambda x: empty(x.dtype, element_shape=x.shape[1:]).unstack(x), arrays
    )
    write = tf.nest.map_structure(
        lambda row: tf.TensorArray(row.dtype, time, element_shape=row.shape),
        _written_rows(body, carry, arrays, shared),
    )
    if initial:
        write["states"] = [
            tf.TensorArray(row.dtype, time + 1, element_shape=row.shape).write(0, row)
            for row in initial
        ]

    def iterate(k: Tensor, carry: Nest, write: Nest) -> Nest:
        t = steps - 1 - k if reverse else k
        rows = tf.nest.map_structure(lambda a: a.read(t), read)
        new, written = body(carry, rows, shared)
        tf.nest.map_structure(lambda n, o: n.set_shape(o.shape), new, carry)
        after = {
            name: tf.nest.map_structure(
                lambda a, row, at=t + 1 if name == "states" else t: a.write(at, row),
                write[name],
                rows,
            )
            for name, rows in written.items()
        }
        return k + 1, new, after

    _, carry, write = tf.while_loop(lambda k, *_: k < steps, iterate, (0, carry, write))
    return carry, tf.nest.map_structure(lambda a: a.stack(), write)


def _written_rows(body: Body, carry: Nest, arrays: Tree, shared: Tree) -> Tree:
    """Trace `body` in a temporary graph; return its results: symbolic tensors without values."""

    def placeholder(x: Tensor, shape: tf.TensorShape) -> Tensor:
        return tf.compat.v1.placeholder(x.dtype, shape)

    def like(x: Tensor) -> Tensor:
        return placeholder(x, x.shape)

    with tf.Graph().as_default():
        rows = tf.nest.map_structure(lambda x: placeholder(x, x.shape[1:]), arrays)
        carry, shared = (tf.nest.map_structure(like, tree) for tree in (carry, shared))
        _, written = body(carry, rows, shared)
    return written


def _keep_alive(concrete: Any) -> None:
    """Store a program in the graph that calls it, so that Python does not free the program."""
    graph = tf.compat.v1.get_default_graph()
    graph.programs = [*getattr(graph, "programs", []), concrete]


def _any_size(x: Tensor) -> tf.TensorSpec:
    """Return a TensorSpec of x: all dimensions are dynamic, except the last and those of size 1."""
    sizes = [1 if size == 1 else None for size in x.shape[:-1]]
    return tf.TensorSpec([*sizes, *x.shape[-1:]], x.dtype)
