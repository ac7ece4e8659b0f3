"""Run a cell in a loop, for inference and for training without the custom gradient.

All computations that do not depend on the state run before the loop, for all timesteps at once.
They include computations with weights alone. LayerNorm uses kernels whose rows have zero mean: the
rows of their products have zero mean too, and the loop subtracts no mean. The beta of a norm is
added to the bias, if the output of the norm is only added to it::

    LN(x W) = gamma * x V / sqrt(mean((x V)^2) + epsilon) + beta    V = W minus the mean of each row

The loop computes in float32 or wider, whatever the dtype policy.
"""

import dataclasses
import itertools
from collections import ChainMap
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import keras
from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.ops.global_statistics import BatchStatistics
from keras_norm.ops.grouped_norm import group_norms
from keras_norm.ops.moments import statistics_dtype
from keras_norm.ops.resets import reset_states, split_states
from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.ops.scan import scan
from keras_norm.rnn.alignment import align_sequences
from keras_norm.rnn.batch_norm_training import BatchNormTraining
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.core.operations import fold_weights
from keras_norm.rnn.core.recurrence import Norm, Weights, step_norm
from keras_norm.rnn.core.zoneout import change_states, is_drawn
from keras_norm.rnn.norm_form import JOINT_SLOT
from keras_norm.rnn.slots import KERNEL_SLOTS, call_layer
from keras_norm.typing import Tensor, Tensors

# Batch statistics by slot, of each timestep.
Statistics: TypeAlias = dict[str, BatchStatistics]
# Results of `run`: the outputs at every timestep or None, the last states, the batch statistics.
Results: TypeAlias = tuple[Tensor | None, Tensors, Statistics]


class PerSampleNorm(NamedTuple):
    """A norm of each sample, such as LayerNorm, with its gamma and beta."""

    norm: Norm
    gamma: Tensor | None
    beta: Tensor | None
    rows: tuple[Tensor, ...] = ()

    def normalize(self, x: Tensor, unmasked: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Normalize x over its last axis."""
        y = self.norm.apply(x, self.norm.statistics(x, unmasked, ()), self.gamma)
        return y if self.beta is None else y + self.beta, ()


class BatchNormInference(NamedTuple):
    """Batch normalization with the moving statistics, as in inference.

    ::

        y = (x - mean) * scale + beta        scale = gamma / sqrt(variance + epsilon)

    `rows` are the mean and the scale of every timestep, each (time, width).
    """

    rows: tuple[Tensor, ...]
    beta: Tensor | None

    def normalize(
        self, x: Tensor, unmasked: Tensor | None, mean: Tensor, scale: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Compute (x - mean) * scale + beta, with the moving statistics of the timestep of x."""
        y = (x - mean) * scale
        return y if self.beta is None else y + self.beta, ()


class LayerCall(NamedTuple):
    """A norm that the loop applies by a call of its layer, for example a user's layer."""

    layer: keras.layers.Layer
    training: bool
    rows: tuple[Tensor, ...] = ()

    def normalize(self, x: Tensor, unmasked: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Call the layer; x (time, batch, width) becomes one batch of time * batch samples.

        A BatchNormalization of W x therefore has one statistic over all timesteps. In
        keras.layers.RNN, a cell has one statistic at each timestep.
        """
        if len(x.shape) == 2:
            return ops.cast(call_layer(self.layer, x, self.training), x.dtype), ()
        mask = None if unmasked is None else ops.reshape(unmasked, (-1,))
        flat = ops.reshape(x, (-1, x.shape[-1]))
        y = call_layer(self.layer, flat, self.training, mask)
        return ops.cast(ops.reshape(y, ops.shape(x)), x.dtype), ()


SlotNorm: TypeAlias = PerSampleNorm | BatchNormInference | BatchNormTraining | LayerCall


@align_sequences
def run(
    cell: NormCell,
    sequences: Tensor,
    states: Tensors,
    mask: Tensor | None,
    training: bool,
    dropout_masks: tuple[Tensors, Tensors],
    *,
    return_sequences: bool,
    unroll: bool = False,
    center_kernels: bool = True,
    resets: Tensor | None = None,
) -> Results:
    """Run a cell over sequences in a loop of Keras operations, without the custom gradient.

    Args:
        cell: a built cell.
        sequences: (batch, time, features), in the order of the loop.
        states: initial states, each (batch, units). With `resets`, the states after a reset follow.
        mask: bool (batch, time), True at unmasked timesteps; or None.
        training: whether to apply dropout and to use batch statistics.
        dropout_masks: masks of the inputs and of the first state, from `NormCell.dropout_masks`.
        return_sequences: whether to return the first state at every timestep.
        unroll: whether to unroll the loop.
        center_kernels: whether to subtract the row means of kernels before the loop. This saves
            time if several timesteps use these kernels.
        resets: bool (batch, time), True at the first timestep of each sequence in a row; or None.

    Returns:
        The first state at every timestep (batch, time, units), or None; the last states; and the
        `BatchStatistics` of each slot with batch statistics, (time, features).
    """
    dtype = statistics_dtype(cell.compute_dtype)
    # Transpose the inputs, not the product of inputs and kernel: the product has more columns.
    x = ops.cast(ops.swapaxes(sequences, 0, 1), dtype)
    steps = cell.slots.timesteps(ops.shape(x)[0], mask, resets)
    unmasked, resets = (
        None if flags is None else ops.expand_dims(ops.swapaxes(flags, 0, 1), -1)
        for flags in (mask, resets)
    )
    center = center_kernels and not training
    weights, layers = _prepare(cell, dtype, steps, unmasked, training, center=center)
    input_masks, recurrent_masks = ([ops.cast(m, dtype) for m in masks] for masks in dropout_masks)
    before, _ = split_states(states, resets)
    sizes = ops.shape(x)[:2]
    changes = cell.draw_changes(sizes[:1], before, training)
    masks = cell.draw_step_masks(sizes, dtype, training)
    drawn = [*filter(is_drawn, changes), *masks.values()]
    batch_statistics: dict[str, Sequence[Tensor]] = {}

    def norm_all(slot: str, x: Tensor) -> Tensor:
        if slot not in layers:
            return x
        rows = layers[slot].rows
        now = [ops.expand_dims(row, 1) if len(row.shape) == 2 else row for row in rows]
        y, batch_statistics[slot] = layers[slot].normalize(x, unmasked, *now)
        return y

    x = cell.project_inputs(weights, x, input_masks, norm_all)
    looped = [slot for slot in layers if slot not in KERNEL_SLOTS]
    learning = {s: n for s in looped if isinstance(n := layers[s], BatchNormTraining)}

    def step(carry: Tensors, xs: Tensors) -> tuple[Tensors, Tensors]:
        remaining, carried = iter(xs), iter(carry[n_states:])
        x, unmasked_now = next(remaining), None if unmasked is None else next(remaining)
        reset_now = None if resets is None else next(remaining)
        states, after_reset = split_states(carry[:n_states], resets)
        states = reset_states(states, reset_now, after_reset)
        now = {slot: [next(remaining) for _ in layers[slot].rows] for slot in looped}
        changes_now = [next(remaining) if is_drawn(change) else change for change in changes]
        of_step = {**weights.cell, **{name: next(remaining) for name in masks}}
        latest = {slot: [next(carried) for _ in first] for slot, first in first_latest.items()}
        batch: dict[str, Sequence[Tensor]] = {}

        def norm(slot: str, x: Tensor) -> Tensor:
            if slot not in layers:
                cell.require_slot(slot)
                return x
            if slot in learning:
                y, batch[slot], latest[slot] = learning[slot].normalize_step(
                    x, unmasked_now, now[slot], latest[slot]
                )
                return y
            y, batch[slot] = layers[slot].normalize(x, unmasked_now, *now[slot])
            return y

        norm_columns = norm if JOINT_SLOT in layers else cell.by_gate(norm)
        now_weights = weights._replace(cell=of_step)
        new = cell.step(now_weights, x, states, recurrent_masks, norm_columns)
        new = change_states(changes_now, new, states)
        if unmasked_now is not None:
            new = [ops.where(unmasked_now, n, o) for n, o in zip(new, states, strict=True)]
        ys = [*new[:return_sequences], *(s for slot in learning for s in batch[slot])]
        return [*new, *after_reset, *itertools.chain(*latest.values())], ys

    states = [ops.cast(state, dtype) for state in states]
    n_states, first_latest = len(states), {s: norm.first_latest() for s, norm in learning.items()}
    widths = [cell.slots.widths[slot] for slot in learning]
    like = [s for n in widths for s in (*[ops.zeros([n], dtype)] * 2, ops.zeros([1], dtype))]
    rows = [row for slot in looped for row in layers[slot].rows]
    states, ys = scan(
        step,
        [x, *(flags for flags in (unmasked, resets) if flags is not None), *rows, *drawn],
        [*states, *itertools.chain(*first_latest.values())],
        [*states[:return_sequences], *like],
        unroll=unroll,
        training=training,
        independent_rows=not any(isinstance(norm, LayerCall) for norm in layers.values()),
    )
    outputs = ops.swapaxes(ys.pop(0), 0, 1) if return_sequences else None
    for i, slot in enumerate(learning):
        batch_statistics[slot] = ys[3 * i : 3 * i + 3]
    found = {slot: BatchStatistics(*batch) for slot, batch in batch_statistics.items() if batch}
    return outputs, split_states(states[:n_states], resets)[0], found


def _prepare(
    cell: NormCell,
    dtype: str,
    steps: Tensor,
    unmasked: Tensor | None,
    training: bool,
    *,
    center: bool,
) -> tuple[Weights, dict[str, SlotNorm]]:
    """Return the weights of a step, folded before the loop, and the norm of each slot.

    The kernels of LayerNorms are centered if `center` is True. Betas are added to the bias if the
    cell has a bias. The norms of the gates of a joint form become one, if they are equal.
    """
    given = dtype, steps, unmasked, training
    layers = {slot: _convert(layer, slot, *given) for slot, layer in cell.slot_layers().items()}
    of_kernels, added = ChainMap(*cell.kernel_slots()), cell.added_slots()
    has_bias, joint = cell.step_weights().bias is not None, cell.joint_slots()
    centered, betas = [], {}
    for slot, norm in layers.items():
        if slot not in of_kernels:
            continue
        if center and isinstance(norm, PerSampleNorm) and isinstance(norm.norm, SampleNorm):
            if norm.norm.center:
                centered.append(slot)
            norm = norm._replace(norm=dataclasses.replace(norm.norm, center=False))
        is_added = slot in added and (has_bias or slot in joint)
        if (
            is_added
            and isinstance(norm, PerSampleNorm | BatchNormInference)
            and norm.beta is not None
        ):
            betas[slot], norm = norm.beta, norm._replace(beta=None)
        layers[slot] = norm
    weights = cell.step_weights().cast(dtype)
    folded = fold_weights(weights, cell.kernel_slots(), centered, betas, added)
    return folded, _group_gates(layers, [layers.get(slot) for slot in joint])


def _group_gates(
    layers: dict[str, SlotNorm], gates: Sequence[SlotNorm | None]
) -> dict[str, SlotNorm]:
    """Return one norm of all gates of a joint form, if they have equal norms, else `layers`."""
    norms = [norm for norm in gates if isinstance(norm, PerSampleNorm)]
    grouped = group_norms([norm.norm for norm in norms]) if norms else None
    gammas = [norm.gamma for norm in norms if norm.gamma is not None]
    if grouped is None or len(norms) < len(gates) or len(gammas) not in (0, len(gates)):
        return layers
    return {JOINT_SLOT: PerSampleNorm(grouped, ops.concatenate(gammas) if gammas else None, None)}


def _convert(
    layer: keras.Layer,
    slot: str,
    dtype: str,
    steps: Tensor,
    unmasked: Tensor | None,
    training: bool,
) -> SlotNorm:
    """Convert a norm layer of a cell to operations of the loop, or to a call of the layer."""

    def weight(name: str) -> Tensor | None:
        value = getattr(layer, name, None)
        return None if value is None else ops.cast(value, dtype)

    if not isinstance(layer, StatisticsNormalization):
        norm = step_norm(layer, training)
        if norm is None or norm.per_batch:
            return LayerCall(layer, training)
        return PerSampleNorm(norm, weight("gamma"), weight("beta"))
    uses_batch = training and layer.trainable
    if uses_batch and slot in KERNEL_SLOTS and not layer.per_timestep:
        # BatchNormalization computes one mean over all timesteps, so call it on all timesteps.
        return LayerCall(layer, training)
    if uses_batch:
        return BatchNormTraining.of_layer(layer, steps, unmasked, dtype)
    mean, variance = layer.statistics_at(steps, dtype)
    gamma, scale = weight("gamma"), ops.rsqrt(variance + layer.epsilon)
    return BatchNormInference((mean, scale if gamma is None else scale * gamma), weight("beta"))
