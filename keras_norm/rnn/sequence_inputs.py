"""Prepare the inputs of a loop over time: time becomes axis 0, padding moves to the end."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.ops.enough_sequences import has_enough_sequences
from keras_norm.ops.global_statistics import BatchStatistics
from keras_norm.ops.leading_padding import count_leading_padding, roll_sequences
from keras_norm.ops.moments import statistics_dtype
from keras_norm.ops.replicas import all_reduce
from keras_norm.ops.timestep_norm import TimestepNorm
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.core.recurrence import Tree
from keras_norm.rnn.random_masks import Masks
from keras_norm.typing import Tensor, Tensors

# A dict from names of norms, such as "kernel_norm", to their batch statistics at every timestep.
Statistics: TypeAlias = dict[str, BatchStatistics]
# A tuple: the outputs at every timestep or None, the last states, and the batch statistics.
Results: TypeAlias = tuple[Tensor | None, Tensors, Statistics]


class SequenceInputs(NamedTuple):
    """The inputs of a loop over time. The loop computes in float32 or wider.

    Args:
        x: (time, batch, features).
        states: initial states, each (batch, units). With resets, the states after a reset follow.
        per_step: what the step of each timestep reads: "unmasked" and "resets", bool
            (time, batch, 1), if given; in training "changes", bool (time, batch, units) of each
            state with zoneout, and "step", arrays (time, batch, ...) by name.
        dropout: dropout masks of x and of the first state, as in `Masks`.
        steps: the timestep that each iteration has in its sequence, from `Slots.timesteps`.
        dtype: dtype of the loop.
    """

    x: Tensor
    states: Tensors
    per_step: Tree
    dropout: tuple[Tensors, Tensors]
    steps: Tensor
    dtype: str

    def count_sequences(self, layers: Mapping[str, StatisticsNormalization]) -> dict[str, Tensor]:
        """Return for each layer the number of unmasked sequences at each timestep: (time, 1).

        Layers with `synchronized=True` count the sequences of all replicas, other layers only the
        sequences of this replica.
        """
        if not layers:
            return {}
        unmasked = self.per_step.get("unmasked", ops.ones_like(self.x[:, :, :1]))
        count = ops.sum(ops.cast(unmasked, self.x.dtype), axis=1)
        synchronized = {slot for slot, layer in layers.items() if layer.synchronized}
        total = all_reduce(count) if synchronized else count
        return {slot: total if slot in synchronized else count for slot in layers}

    def moving_statistics(
        self, layer: StatisticsNormalization, norm: TimestepNorm, count: Tensor | None
    ) -> Tensors:
        """Return the moving statistics at all timesteps: the argument `moving` of `TimestepNorm`.

        Args:
            layer: a batch norm.
            norm: its `TimestepNorm`.
            count: from `count_sequences`, if the norm uses the statistics of the batch.

        Returns:
            mean and r, (*steps.shape, features), and with a mask in training whether a timestep has
            enough sequences, bool (time, 1).
        """
        mean, variance = layer.statistics_at(self.steps, self.dtype)
        moving = [mean, ops.rsqrt(variance + norm.epsilon)]
        if count is not None and "unmasked" in self.per_step and layer.per_timestep:
            moving.append(has_enough_sequences(count, layer.min_sequences))
        return moving


def batch_statistics(moments: Mapping[str, Tensors], counts: Mapping[str, Tensor]) -> Statistics:
    """Return the batch statistics of each norm, (time, features), without gradients.

    Args:
        moments: mean and variance (time, 1, features) by slot.
        counts: result of `SequenceInputs.count_sequences`.
    """
    found = {}
    for slot, count in counts.items():
        mean, variance = (ops.stop_gradient(moment[:, 0]) for moment in moments[slot])
        found[slot] = BatchStatistics(mean, variance, count)
    return found


def time_first(run: Callable[..., Results]) -> Callable[..., Results]:
    """Turn a function of sequences (time, batch, ...) into one of sequences (batch, time, ...).

    The decorated function has the arguments of `run_batch`, and then those of `run` by name.

    If `Slots.needs_alignment` is True, sequences with a mask are aligned::

        y = roll(run(roll(x, -n)), n)        n: masked timesteps before the first unmasked timestep

    Each sequence then enters the loop with its first unmasked timestep first: iteration k of the
    loop is timestep k of every sequence. The n masked timesteps come last in the loop. They change
    no state, so the states and the outputs at unmasked timesteps do not depend on n. Rows with
    resets are not aligned.
    """

    @functools.wraps(run)
    def run_batch(
        cell: NormCell,
        sequences: Tensor,
        states: Tensors,
        mask: Tensor | None,
        training: bool,
        masks: Masks,
        *,
        resets: Tensor | None = None,
        **options: Any,
    ) -> Results:
        """Run a cell on a batch of sequences.

        Args:
            cell: a built cell.
            sequences: (batch, time, features), in the order of the loop.
            states: initial states, each (batch, units). With `resets`, the states after a reset
                follow.
            mask: bool (batch, time), True at unmasked timesteps; or None.
            training: whether to use batch statistics.
            masks: the masks of `RandomMasks.draw_masks`.
            resets: bool (batch, time), True at the first timestep of each sequence in a row; or
                None.
            **options: further arguments of `run`.
        """
        aligns = mask is not None and resets is None and cell.slots.needs_alignment(training)
        if aligns:
            n = count_leading_padding(mask)
            sequences, mask = roll_sequences(sequences, -n), roll_sequences(mask, -n)
        inputs = _prepare(cell, sequences, states, mask, masks, resets)
        outputs, states, statistics = run(cell, inputs, training, **options)
        if outputs is not None:
            outputs = ops.swapaxes(outputs, 0, 1)
            outputs = roll_sequences(outputs, n) if aligns else outputs
        return outputs, states, statistics

    return run_batch


def _prepare(
    cell: NormCell,
    sequences: Tensor,
    states: Tensors,
    mask: Tensor | None,
    masks: Masks,
    resets: Tensor | None,
) -> SequenceInputs:
    dtype = statistics_dtype(cell.compute_dtype)
    # Transpose the inputs, not the product of inputs and kernel: the product has more columns.
    x = ops.cast(ops.swapaxes(sequences, 0, 1), dtype)
    given = {"unmasked": mask, "resets": resets}
    per_step: Tree = {
        name: ops.expand_dims(ops.swapaxes(flags, 0, 1), -1)
        for name, flags in given.items()
        if flags is not None
    }
    if masks.changes:
        per_step["changes"] = masks.changes
    if masks.step:
        per_step["step"] = masks.step
    of_x, of_h = ([ops.cast(m, dtype) for m in of] for of in (masks.inputs, masks.recurrent))
    states = [ops.cast(state, dtype) for state in states]
    steps = cell.slots.timesteps(ops.shape(x)[0], mask, resets)
    return SequenceInputs(x, states, per_step, (of_x, of_h), steps, dtype)
