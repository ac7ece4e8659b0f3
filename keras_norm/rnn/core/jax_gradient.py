"""The custom gradient and the loop over time of the JAX backend."""

import functools
from collections.abc import Callable

import jax
from jax import lax

from keras_norm.rnn.core.backward import backward
from keras_norm.rnn.core.recurrence import Recurrence, Tree
from keras_norm.rnn.core.sequence import Body, forward
from keras_norm.typing import Nest, Tensor, Tensors

# Largest number of functions in the cache of `_program`. JAX compiles each function once for each
# shape of its arguments.
PROGRAMS = 256


def run(
    recurrence: Recurrence,
    xs: Tensors,
    states: Tensors,
    weights: Tree,
    constants: Tree,
    *,
    return_sequences: bool,
    training: bool,
) -> tuple[Tensors, Tensors, dict[str, Tensors]]:
    """Run a recurrence with a custom gradient in training; see `sequence.forward` for arguments.

    Inference has the gradient that JAX derives, so that forward mode (`jax.jvp`) works.

    Returns:
        The outputs and the last states of `ForwardResults`, and the batch statistics.
    """
    results: tuple[Tensors, Tensors, dict[str, Tensors]]
    results = _program(recurrence, return_sequences, training)(xs, states, weights, constants)
    return results


@functools.lru_cache(maxsize=PROGRAMS)
def _program(
    recurrence: Recurrence, return_sequences: bool, training: bool
) -> Callable[[Tensors, Tensors, Tree, Tree], Nest]:
    """Return the jitted function of a recurrence; calls outside of `jax.jit` also use it."""
    run_forward = functools.partial(
        forward, recurrence, LoopOverTime(), return_sequences=return_sequences, training=training
    )

    def infer(*arguments: Nest) -> Nest:
        return run_forward(*arguments)[:3]

    if not training:
        return jax.jit(infer)

    def train(*arguments: Nest) -> Nest:
        results = run_forward(*arguments)
        return results[:3], (results.residuals, arguments)

    def gradient(kept: Nest, d_results: Nest) -> Nest:
        residuals, (_, _, weights, constants) = kept
        d_outputs, d_states, _ = d_results
        of_all = backward(
            recurrence, LoopOverTime(), residuals, weights, constants, d_outputs, d_states
        )
        return *of_all, None

    differentiable = jax.custom_vjp(infer)
    differentiable.defvjp(train, gradient)
    return jax.jit(differentiable)


class LoopOverTime:
    """Loop over time in a `lax.fori_loop`; see `sequence.Loop`.

    XLA writes a row in place if the iteration does not read the array after the write. If an
    iteration reads its row of "gates" at the start, XLA moves the read into the operations that use
    it, after the write, and copies the whole array. So the reversed loop reads the row of the next
    iteration after the write, and carries it.
    """

    joins_gates = True

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
        gates = arrays["gates"]
        others = {name: array for name, array in arrays.items() if name != "gates"}
        time = gates.shape[0]
        rows = jax.eval_shape(lambda: jax.tree.map(lambda a: _read(a, 0), arrays))
        _, written = jax.eval_shape(body, carry, rows, shared)
        buffers = jax.tree.map(lambda row: _empty(time, row), written)
        if "gates" in written:
            buffers["gates"] = gates
        if initial is not None:
            buffers["states"] = [_write(0, _empty(time + 1, row), row) for row in initial]

        def iterate(k: Tensor, loop_carry: Nest) -> Nest:
            carry, buffers, row = loop_carry
            t = time - 1 - k if reverse else k
            rows = jax.tree.map(lambda a: _read(a, t), others)
            rows["gates"] = row if reverse else _read(buffers.get("gates", gates), t)
            carry, new = body(carry, rows, shared)
            written = {
                name: jax.tree.map(
                    functools.partial(_write, t + 1 if name == "states" else t), buffers[name], rows
                )
                for name, rows in new.items()
            }
            if reverse:
                row = _read(written["gates"], jax.numpy.maximum(t - 1, 0))
            return carry, written, row

        row = _read(gates, time - 1) if reverse else ()
        carry, buffers, _ = lax.fori_loop(0, time, iterate, (carry, buffers, row))
        return carry, buffers


def _empty(time: int, row: Tensor) -> Tensor:
    array: Tensor = lax.empty((time, *row.shape), row.dtype)  # type: ignore[no-untyped-call]
    return array


def _read(array: Tensor, t: int | Tensor) -> Tensor:
    return lax.dynamic_index_in_dim(array, t, 0, keepdims=False)


def _write(t: int | Tensor, array: Tensor, row: Tensor) -> Tensor:
    return lax.dynamic_update_index_in_dim(array, row, t, 0)
