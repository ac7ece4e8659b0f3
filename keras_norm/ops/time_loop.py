"""The one loop over time: masks, states, and what every step hands out.

Three forms compute the same. An unrolled Python loop; the backend's own scan; and, on TensorFlow, a
`tf.while_loop` that either trains fast or, inside `portable_loops()`, converts to TFLite.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import keras
from keras import ops

_portable: ContextVar[bool] = ContextVar("portable", default=False)


class LoopResult(NamedTuple):
    """What a loop over time leaves behind.

    `outputs` is (time, batch, units), or None where only the last output was asked for; `collected`
    holds what the steps handed out, each (time, ...).
    """

    last_output: Any
    outputs: Any
    states: list[Any]
    collected: list[Any]


@contextmanager
def portable_loops() -> Iterator[None]:
    """Trace loops in the form that TFLite converts, with dynamic batch and time.

    Outputs are written by an operation of XLA's, in place of a TensorArray, which TFLite lacks. It
    is slow in TensorFlow itself, and has no gradient.
    """
    token = _portable.set(True)
    try:
        yield
    finally:
        _portable.reset(token)


def loops_are_portable() -> bool:
    """Whether loops are traced in the form that TFLite converts."""
    return _portable.get()


def time_loop(
    step: Callable[[list[Any], list[Any], Any], tuple[list[Any], list[Any]]],
    inputs: Sequence[Any],
    states: Sequence[Any],
    *,
    mask: Any = None,
    collected_like: Sequence[Any] = (),
    return_sequences: bool = True,
    zero_output_for_mask: bool = False,
    unroll: bool = False,
) -> LoopResult:
    """Run a recurrence whose output is its first state.

    A masked step keeps every state, and repeats the output before it (zeros before the first).

    Args:
        step: maps (inputs at t, states, mask at t) to (new states, what is collected at t).
        inputs: tensors (time, ...).
        states: initial states, each (batch, units).
        mask: bool (time, batch, 1), or None.
        collected_like: tensors of the shape and dtype of what a step collects.
        return_sequences: whether to keep the output of every step.
        zero_output_for_mask: give zeros as the output of a masked step.
        unroll: write the steps one after the other; time must be static.
    """
    states, inputs = list(states), list(inputs)
    output = ops.zeros_like(states[0])

    def carry_step(carry: list[Any], xs: list[Any]) -> tuple[list[Any], list[Any]]:
        if mask is None:
            new, collected = step(xs, carry, None)
            output = new[0]
        else:
            alive, held, *old = xs[-1], *carry
            new, collected = step(xs[:-1], old, alive)
            output = ops.where(
                alive, new[0], ops.zeros_like(held) if zero_output_for_mask else held
            )
            new = [output, *(ops.where(alive, n, o) for n, o in zip(new, old, strict=True))]
        return new, [output, *collected] if return_sequences else list(collected)

    xs = inputs if mask is None else [*inputs, mask]
    carry = states if mask is None else [output, *states]
    like = [output, *collected_like] if return_sequences else list(collected_like)
    carry, ys = _scan_form(unroll)(carry_step, xs, carry, like)
    outputs = ys.pop(0) if return_sequences else None
    return LoopResult(carry[0], outputs, carry if mask is None else carry[1:], ys)


def _scan_form(unroll: bool) -> Callable[..., tuple[list[Any], list[Any]]]:
    """The scan that serves here: (step, xs, carry, like) -> (carry, stacked ys)."""
    if unroll:
        return _unrolled
    if keras.backend.backend() != "tensorflow":
        return _backend_scan
    from keras_norm.ops import tensorflow_scan

    return tensorflow_scan.portable if loops_are_portable() else tensorflow_scan.fast


def _unrolled(step: Any, xs: list[Any], carry: list[Any], like: list[Any]) -> Any:
    steps = []
    for t in range(xs[0].shape[0]):
        carry, ys = step(carry, [x[t] for x in xs])
        steps.append(ys)
    return carry, [ops.stack(y) for y in zip(*steps, strict=True)]


def _backend_scan(step: Any, xs: list[Any], carry: list[Any], like: list[Any]) -> Any:
    carry, ys = ops.scan(step, carry, xs)
    return carry, list(ys)
