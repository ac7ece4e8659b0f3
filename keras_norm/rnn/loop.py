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
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.layers.timestep_batch_norm import timestep_norm
from keras_norm.ops.grouped_norm import group_norms
from keras_norm.ops.resets import reset_states, split_states
from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.ops.scan import scan
from keras_norm.ops.timestep_norm import TimestepNorm, first_latest
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.core.operations import fold_weights
from keras_norm.rnn.core.recurrence import Tree, Weights, step_norm
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.rnn.core.zoneout import change_states, changes_at
from keras_norm.rnn.norm_form import JOINT_SLOT
from keras_norm.rnn.sequence_inputs import (
    Results,
    SequenceInputs,
    batch_statistics,
    time_first,
)
from keras_norm.rnn.slots import KERNEL_SLOTS, call_layer
from keras_norm.typing import Nest, Tensor, Tensors


@dataclasses.dataclass(frozen=True)
class LayerCall:
    """A norm that the loop applies by a call of its layer, for example a user's layer."""

    layer: keras.layers.Layer
    training: bool

    per_batch: ClassVar = True

    def statistics(self, a: Tensor, unmasked: Tensor | None, moving: Tensors) -> Tensors:
        """Return the mask, which `apply` passes to the layer."""
        return [] if unmasked is None else [unmasked]

    def apply(self, a: Tensor, statistics: Tensors, gamma: Tensor | None) -> Tensor:
        """Call the layer; `a` (time, batch, width) becomes one batch of time * batch samples.

        A BatchNormalization of W x therefore has one statistic over all timesteps. In
        keras.layers.RNN, a cell has one statistic at each timestep.
        """
        if len(a.shape) == 2:
            return ops.cast(call_layer(self.layer, a, self.training), a.dtype)
        mask = ops.reshape(statistics[0], (-1,)) if statistics else None
        flat = ops.reshape(a, (-1, a.shape[-1]))
        y = call_layer(self.layer, flat, self.training, mask)
        return ops.cast(ops.reshape(y, ops.shape(a)), a.dtype)


class LoopNorms(NamedTuple):
    """The norms of a loop, with their weights and moving statistics, by names like "kernel_norm".

    Args:
        norms: a `Norm` or a `LayerCall` of each slot.
        weights: the gammas and the betas that the norms apply, as {"gamma": ..., "beta": ...}.
        moving: the argument `moving` of each `TimestepNorm` at every timestep, without the axis of
            the batch.
        counts: number of sequences at each timestep, (time, 1), of the norms with the statistics of
            the batch.
    """

    norms: dict[str, Any]
    weights: dict[str, dict[str, Tensor]]
    moving: dict[str, Tensors]
    counts: dict[str, Tensor]


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
    weights, of_slots = _prepare(cell, inputs, training, center=center_kernels and not training)
    input_masks, recurrent_masks = inputs.dropout
    learning = {slot: of_slots.norms[slot] for slot in of_slots.counts}

    def norms_of(constants: Tree, latest: Mapping[str, Tensors]) -> StepNorms:
        return StepNorms(type(cell), *of_slots[:2], constants, carried=latest.items())

    moving = {
        slot: [ops.expand_dims(row, 1) if len(row.shape) == 2 else row for row in rows]
        for slot, rows in of_slots.moving.items()
    }
    at_once = norms_of({"unmasked": unmasked, "moving": moving}, {})
    x = cell.project_inputs(weights, inputs.x, input_masks, at_once)
    of_steps = {slot: norm for slot, norm in learning.items() if slot not in KERNEL_SLOTS}

    def step(carry: Nest, xs: Nest) -> tuple[Nest, Nest]:
        (states, after_reset, latest), (x, now, moving) = carry, xs
        states = reset_states(states, now.get("resets"), after_reset)
        unmasked = now.get("unmasked")
        norms = norms_of({"unmasked": unmasked, "moving": moving}, latest)
        norm_columns = norms if JOINT_SLOT in norms.norms else cell.by_gate(norms)
        read = weights._replace(cell={**weights.cell, **now.get("step", {})})
        new = cell.step(read, x, states, recurrent_masks, norm_columns)
        changes = changes_at(cell.zoneout_rates(), now.get("changes", []))
        new = change_states(changes, new, states)
        if unmasked is not None:
            new = [ops.where(unmasked, n, o) for n, o in zip(new, states, strict=True)]
        batch = {slot: norm.moments(norms.statistics[slot]) for slot, norm in of_steps.items()}
        return (new, after_reset, norms.carried), (new[:return_sequences], batch)

    states, after_reset = split_states(inputs.states, inputs.per_step.get("resets"))
    looped = {slot: rows for slot, rows in of_slots.moving.items() if slot not in KERNEL_SLOTS}
    widths = cell.slots.widths
    latest = {slot: first_latest(widths[slot], dtype) for slot in looped if len(looped[slot]) > 2}
    like = {slot: [ops.zeros([1, widths[slot]], dtype)] * 2 for slot in of_steps}
    (states, *_), (outputs, batch) = scan(
        step,
        (x, inputs.per_step, looped),
        (states, after_reset, latest),
        (states[:return_sequences], like),
        unroll=unroll,
        training=training,
        independent_rows=not any(isinstance(n, LayerCall) for n in of_slots.norms.values()),
    )
    for slot in learning.keys() - of_steps.keys():
        batch[slot] = learning[slot].moments(at_once.statistics[slot])
    found = batch_statistics(batch, of_slots.counts)
    return outputs[0] if return_sequences else None, states, found


def _prepare(
    cell: NormCell, inputs: SequenceInputs, training: bool, *, center: bool
) -> tuple[Weights, LoopNorms]:
    """Return the weights and the norms of a cell for the loop over time.

    If `center` is True, row means are subtracted from the kernels of LayerNorms. If the cell has a
    bias or a joint form, betas are added to the bias. Equal norms of all gates become one norm.
    """
    layers = cell.slot_layers()
    norms = {slot: _convert(layer, slot, training) for slot, layer in layers.items()}
    learning = [slot for slot, norm in norms.items() if getattr(norm, "learning", False)]
    counts = inputs.count_sequences({slot: layers[slot] for slot in learning})

    def weights_named(name: str) -> dict[str, Tensor]:
        found = {slot: getattr(layers[slot], name, None) for slot in norms}
        return {
            slot: ops.cast(w, inputs.dtype)
            for slot, w in found.items()
            if w is not None and not isinstance(norms[slot], LayerCall)
        }

    gamma, beta, moving = weights_named("gamma"), weights_named("beta"), {}
    for slot, norm in norms.items():
        if isinstance(norm, TimestepNorm):
            mean, r, *enough = inputs.moving_statistics(layers[slot], norm, counts.get(slot))
            if slot not in learning and slot in gamma:
                r = r * gamma.pop(slot)
            moving[slot] = [mean, r, *enough]
    of_kernels, added = ChainMap(*cell.kernel_slots()), cell.added_slots()
    has_bias, joint = cell.step_weights().bias is not None, cell.joint_slots()
    centered = []
    for slot in of_kernels.keys() & norms.keys() if center else ():
        if isinstance(norms[slot], SampleNorm) and norms[slot].center:
            centered.append(slot)
            norms[slot] = dataclasses.replace(norms[slot], center=False)
    of_bias = [s for s in beta if s in of_kernels and s in added and (has_bias or s in joint)]
    betas = {slot: beta.pop(slot) for slot in of_bias}
    weights = cell.step_weights().cast(inputs.dtype)
    folded = fold_weights(weights, cell.kernel_slots(), centered, betas, added)
    grouped = group_norms([norms.get(slot) for slot in joint], [gamma.get(slot) for slot in joint])
    if grouped is not None:
        norms = {JOINT_SLOT: grouped}
        gamma = {JOINT_SLOT: ops.concatenate([gamma[slot] for slot in joint])} if gamma else {}
    return folded, LoopNorms(norms, {"gamma": gamma, "beta": beta}, moving, counts)


def _convert(layer: keras.Layer, slot: str, training: bool) -> Any:
    """Convert a norm layer of a cell to operations of the loop, or to a call of the layer."""
    if isinstance(layer, StatisticsNormalization):
        of_step = timestep_norm(layer, training)
        # In training, BatchNormalization of W x computes one mean over all timesteps. So the loop
        # does not apply this norm at each timestep: call its layer once for all timesteps.
        one_mean = of_step.learning and slot in KERNEL_SLOTS and not layer.per_timestep
        return LayerCall(layer, training) if one_mean else of_step
    norm = step_norm(layer, training)
    return LayerCall(layer, training) if norm is None or norm.per_batch else norm
