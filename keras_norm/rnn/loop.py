"""Run a cell in a loop, for inference and for training without the custom gradient.

All computations that do not depend on the state run before the loop, for all timesteps at once.
They include computations with weights alone. LayerNorm uses kernels whose rows have zero mean: the
rows of their products have zero mean too, and the loop subtracts no mean. The beta of a norm is
added to the bias, if the output of the norm is only added to it::

    LN(x W) = gamma * x V / sqrt(mean((x V)^2) + epsilon) + beta    V = W minus the mean of each row

The loop computes in float32 or wider, whatever the dtype policy.
"""

import dataclasses
from collections import ChainMap
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import keras
from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.ops.global_statistics import BatchStatistics
from keras_norm.ops.grouped_norm import group_norms
from keras_norm.ops.resets import reset_states, split_states
from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.ops.scan import scan
from keras_norm.rnn.batch_norm_training import BatchNormTraining
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.core.operations import fold_weights
from keras_norm.rnn.core.recurrence import Norm, Weights, step_norm
from keras_norm.rnn.core.zoneout import change_states, changes_at
from keras_norm.rnn.norm_form import JOINT_SLOT
from keras_norm.rnn.sequence_inputs import Results, SequenceInputs, time_first
from keras_norm.rnn.slots import KERNEL_SLOTS, call_layer
from keras_norm.typing import Nest, Tensor


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


@time_first
def run(
    cell: NormCell,
    inputs: SequenceInputs,
    training: bool,
    *,
    return_sequences: bool,
    unroll: bool = False,
    center_kernels: bool = True,
) -> Results:
    """Run a cell over sequences in a loop of Keras operations, without the custom gradient.

    Args:
        cell: a built cell.
        inputs: the sequences, the states and the masks.
        training: whether to use batch statistics.
        return_sequences: whether to return the first state at every timestep.
        unroll: whether to unroll the loop.
        center_kernels: whether to subtract the row means of kernels before the loop. This saves
            time if several timesteps use these kernels.

    Returns:
        The first state at every timestep, or None; the last states; and the `BatchStatistics` of
        each slot with batch statistics, (time, features).
    """
    dtype, unmasked = inputs.dtype, inputs.per_step.get("unmasked")
    weights, layers = _prepare(cell, inputs, training, center=center_kernels and not training)
    input_masks, recurrent_masks = inputs.dropout
    statistics: dict[str, Sequence[Tensor]] = {}

    def norm_all(slot: str, x: Tensor) -> Tensor:
        if slot not in layers:
            return x
        rows = layers[slot].rows
        now = [ops.expand_dims(row, 1) if len(row.shape) == 2 else row for row in rows]
        y, statistics[slot] = layers[slot].normalize(x, unmasked, *now)
        return y

    x = cell.project_inputs(weights, inputs.x, input_masks, norm_all)
    looped = [slot for slot in layers if slot not in KERNEL_SLOTS]
    learning = {s: n for s in looped if isinstance(n := layers[s], BatchNormTraining)}

    def step(carry: Nest, xs: Nest) -> tuple[Nest, Nest]:
        (states, after_reset, latest), (x, now, rows) = carry, xs
        latest, batch = {**latest}, {}
        states = reset_states(states, now.get("resets"), after_reset)
        unmasked = now.get("unmasked")

        def norm(slot: str, x: Tensor) -> Tensor:
            if slot not in layers:
                cell.require_slot(slot)
                return x
            if slot in learning:
                y, batch[slot], latest[slot] = learning[slot].normalize_step(
                    x, unmasked, rows[slot], latest[slot]
                )
                return y
            y, batch[slot] = layers[slot].normalize(x, unmasked, *rows[slot])
            return y

        norm_columns = norm if JOINT_SLOT in layers else cell.by_gate(norm)
        read = weights._replace(cell={**weights.cell, **now.get("step", {})})
        new = cell.step(read, x, states, recurrent_masks, norm_columns)
        changes = changes_at(cell.zoneout_rates(), now.get("changes", []))
        new = change_states(changes, new, states)
        if unmasked is not None:
            new = [ops.where(unmasked, n, o) for n, o in zip(new, states, strict=True)]
        ys = new[:return_sequences], {slot: batch[slot] for slot in learning}
        return (new, after_reset, latest), ys

    states, after_reset = split_states(inputs.states, inputs.per_step.get("resets"))
    widths = {slot: cell.slots.widths[slot] for slot in learning}
    like = {s: (*[ops.zeros([n], dtype)] * 2, ops.zeros([1], dtype)) for s, n in widths.items()}
    (states, *_), (outputs, of_steps) = scan(
        step,
        (x, inputs.per_step, {slot: layers[slot].rows for slot in looped}),
        (states, after_reset, {slot: norm.first_latest() for slot, norm in learning.items()}),
        (states[:return_sequences], like),
        unroll=unroll,
        training=training,
        independent_rows=not any(isinstance(norm, LayerCall) for norm in layers.values()),
    )
    statistics |= of_steps
    found = {slot: BatchStatistics(*batch) for slot, batch in statistics.items() if batch}
    return outputs[0] if return_sequences else None, states, found


def _prepare(
    cell: NormCell, inputs: SequenceInputs, training: bool, *, center: bool
) -> tuple[Weights, dict[str, SlotNorm]]:
    """Return the weights and the norms of a cell for the loop over time.

    If `center` is True, row means are subtracted from the kernels of LayerNorms. If the cell has a
    bias or a joint form, betas are added to the bias. Equal norms of all gates become one norm.
    """
    layers = {
        slot: _convert(layer, slot, inputs, training) for slot, layer in cell.slot_layers().items()
    }
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
    weights = cell.step_weights().cast(inputs.dtype)
    folded = fold_weights(weights, cell.kernel_slots(), centered, betas, added)
    return folded, _group_gates(layers, [layers.get(slot) for slot in joint])


def _group_gates(
    layers: dict[str, SlotNorm], gates: Sequence[SlotNorm | None]
) -> dict[str, SlotNorm]:
    """Combine the norms of x W + h U of all gates to one norm if they are equal."""
    norms, gammas = ([getattr(gate, name, None) for gate in gates] for name in ("norm", "gamma"))
    grouped = group_norms(norms, gammas)
    if grouped is None:
        return layers
    gamma = None if gammas[0] is None else ops.concatenate(gammas)
    return {JOINT_SLOT: PerSampleNorm(grouped, gamma, None)}


def _convert(layer: keras.Layer, slot: str, inputs: SequenceInputs, training: bool) -> SlotNorm:
    """Convert a norm layer of a cell to operations of the loop, or to a call of the layer."""
    steps, dtype = inputs.steps, inputs.dtype

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
        # BatchNormalization of W x computes one mean over all timesteps, so call the layer once for
        # all of them.
        return LayerCall(layer, training)
    if uses_batch:
        return BatchNormTraining.of_layer(layer, steps, inputs.per_step.get("unmasked"), dtype)
    mean, variance = layer.statistics_at(steps, dtype)
    gamma, scale = weight("gamma"), ops.rsqrt(variance + layer.epsilon)
    return BatchNormInference((mean, scale if gamma is None else scale * gamma), weight("beta"))
