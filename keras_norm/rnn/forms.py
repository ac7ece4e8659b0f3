"""The two sequence forms, and where one of them is chosen (`fast_choice`).

The plain form runs anywhere and covers everything. The fast form (`keras_norm.ops.fast`) covers
LayerNorm, RMSNorm, BatchNorm of every timestep or no norm with tanh and sigmoid, on TensorFlow on a
CPU, and compiles its loops with XLA for each shape: 2 to 5 s for one pair of batch and time. It
runs

- where the user compiles with XLA anyway (`jit_compile=True`);
- else from the time on that a shape has come by often enough to be worth the compile (`warmth`),
  for at most eight shapes of a recurrence. The choice is the graph's own, at every call, so that it
  holds in `fit`, where batch and time may be unknown. An unknown time is rounded up to one of few
  lengths (`fast_form.sizes_of`): a hundred lengths of sequences are a dozen shapes.

A graph that is traced for export has the plain form alone; one for TFLite has a form of its own
(`exported_form`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from keras_norm.layers.batch_statistics import BatchStatistics
from keras_norm.ops.time_loop import loops_are_portable
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.exported_form import exported_form
from keras_norm.rnn.plain import plain_form

_form: ContextVar[str] = ContextVar("form", default="auto")


@contextmanager
def use_form(form: str) -> Iterator[None]:
    """Fix the form, "plain" or "fast", in place of "auto": for tests and measurements."""
    token = _form.set(form)
    try:
        yield
    finally:
        _form.reset(token)


def run(
    cell: NormCell,
    sequences: Any,
    states: list[Any],
    mask: Any,
    training: bool,
    *,
    return_sequences: bool,
    zero_output_for_mask: bool,
    unroll: bool,
) -> tuple[Any, Any, list[Any]]:
    """Run a cell over sequences, in whichever form is faster.

    Args:
        cell: a built cell.
        sequences: (batch, time, features), in the order of the loop.
        states: initial states, each (batch, units).
        mask: bool (batch, time), True where a sequence is alive; or None.
        training: whether dropout and batch statistics are on.
        return_sequences: whether to give the output of every step.
        zero_output_for_mask: give zeros as the output of a masked step.
        unroll: write the steps one after the other.

    Returns:
        The last output, all outputs (the last one alone without `return_sequences`), and the last
        states.
    """
    dropout_masks = cell.dropout_masks(sequences[:, 0, :], states[0], training)
    options = {
        "return_sequences": return_sequences,
        "zero_output_for_mask": zero_output_for_mask,
        "unroll": unroll,
    }

    def plain() -> Any:
        if loops_are_portable() and not training:
            result = exported_form(cell, sequences, states, mask, **options)
            learned: dict[str, BatchStatistics] = {}
        else:
            result, learned = plain_form(
                cell, sequences, states, mask, training, dropout_masks, **options
            )
        last = result.last_output
        outputs = ops.swapaxes(result.outputs, 0, 1) if return_sequences else last[:, None]
        return last, outputs, result.states, learned

    spec = None
    if _fast_form_runs() and not unroll:
        from keras_norm.rnn import fast_choice, fast_form

        spec = fast_form.fast_spec(
            cell, mask is not None, training, dropout_masks, return_sequences
        )
    if spec is None:
        last_output, outputs, states, learned = plain()
    else:
        sizes = fast_form.sizes_of(sequences)

        def fast(parts: int) -> Any:
            path, last, learned = fast_form.fast_form(
                cell, spec, sequences, states, mask, training, dropout_masks, sizes, parts
            )
            return *_as_outputs(path, last, mask, zero_output_for_mask), learned

        tensors = [sequences, *states, *cell.trainable_variables]
        last_output, outputs, states, learned = fast_choice.choose(
            spec, sequences, sizes, tensors, training, plain, fast, forced=_form.get() == "fast"
        )
    # Not in the forms: what they assigned could not be read outside the conditional they stand in.
    for slot, batch in learned.items():
        cell.slot_layers()[slot].statistics.update_steps(*batch)
    return last_output, outputs, states


def _fast_form_runs() -> bool:
    """Whether the fast form may run at all; if not, its modules need not even be imported."""
    on_tensorflow = keras.backend.backend() == "tensorflow"
    return on_tensorflow and not loops_are_portable() and _form.get() != "plain"


def _as_outputs(path: Any, states: list[Any], mask: Any, zero: bool) -> tuple[Any, Any, list[Any]]:
    """The outputs that belong to a path of h, which a masked step leaves as it was.

    The output of a masked step is the one before it, zeros at first: that is h, but where nothing
    was alive yet and h is the initial state.
    """
    output = states[0]
    if mask is not None:
        counted = mask if zero else ops.cumsum(ops.cast(mask, "int32"), axis=1) > 0
        output = ops.where(counted[:, -1:], output, ops.zeros_like(output))
        if path is not None:
            path = ops.where(counted[:, :, None], path, ops.zeros_like(path))
    return output, output[:, None] if path is None else path, states
