"""The gradient by hand of a cell: what it covers, and how a cell's weights and norms enter it."""

from typing import Any

import tensorflow as tf

from keras_norm.keras_internals import operations_are_watched, xla_compiles
from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.rms_norm import RMSNormalization
from keras_norm.layers.timestep_batch_norm import MIN_SEQUENCES, TimestepBatchNormalization
from keras_norm.ops.kernels import computes_on_cpu
from keras_norm.ops.moments import statistics_dtype
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.gradient.norms import BatchNorm, RowNorm, Statistics
from keras_norm.rnn.gradient.products import side_by_side
from keras_norm.rnn.gradient.programs import Arguments, Setting, Vectors
from keras_norm.rnn.gradient.recurrence import Plan, recurrence
from keras_norm.rnn.gradient.spec import Norm, Spec
from keras_norm.rnn.loop import slots_of_kernels

# Two halves of the batch are two XLA programs, which run side by side: one program alone leaves the
# second of two cores all but idle. So the loops took 0.55 to 0.75 of the time at all four shapes of
# the benchmark; four parts took as long as two.
PARTS = 2


def spec_of(
    cell: NormCell,
    sequences: Any,
    mask: Any,
    training: bool,
    dropout_masks: tuple[list[Any], list[Any]],
) -> Spec | None:
    """The cell's recurrence, or None where the gradient by hand does not cover it.

    It covers LayerNorm (as `LayerNormalization` computes it by default), RMSNorm and BatchNorm of
    every timestep in any slot, or none, with tanh and sigmoid, in every dtype; where no
    tf.debugging watches, which XLA would hide the recurrence from.
    """
    name = cell.gradient_cell()
    if name is None or _is_overridden(type(cell)) or operations_are_watched():
        return None
    layers = cell.slot_layers()
    norms: dict[str, Any] = {slot: _norm(layers.get(slot), training) for slot in cell.slots.widths}
    if False in norms.values():
        return None
    learning = any(isinstance(norm, BatchNorm) and norm.learning for norm in norms.values())
    kernel, recurrent = (tuple(map(norms.get, slots)) for slots in slots_of_kernels(cell))
    return Spec(
        name,
        cell.units,
        kernel,
        recurrent,
        norms.get("state_norm"),
        statistics_dtype(cell.compute_dtype),
        # Rows that fill a batch up must not count in its statistics.
        mask is not None or (learning and _is_open(sequences.shape[0])),
        *map(len, dropout_masks),
    )


def run(
    cell: NormCell,
    spec: Spec,
    sequences: Any,
    states: list[Any],
    mask: Any,
    training: bool,
    dropout_masks: tuple[list[Any], list[Any]],
    *,
    return_sequences: bool,
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Run a cell over sequences. Arguments and results are those of `loop.run`.

    Without `training` what the gradient needs is not kept, but computed again.
    """
    open_batch, open_time = (_is_open(size) for size in sequences.shape[:2])
    # What is normalized over the batch cannot be split, nor is there a second core within XLA.
    whole = spec.learning or sequences.shape[0] == 1 or xla_compiles() or not computes_on_cpu()
    parts = 1 if whole else PARTS
    plan = Plan(parts, open_batch, open_time, return_sequences)
    if mask is None and spec.masked:
        mask = tf.ones(tf.shape(sequences)[:2], "bool")
    layers = cell.slot_layers()
    sides = ("kernel", "recurrent", "state")
    slots = dict(zip(sides, (*slots_of_kernels(cell), ["state_norm"]), strict=True))
    places = {slots[place.side][place.group]: place for place in spec.batch_norms}
    steps, moving = tf.range(tf.shape(sequences)[1]), []
    for slot in places:
        mean, variance = layers[slot].statistics_at(steps, spec.dtype)
        moving.append(Statistics(mean, tf.math.rsqrt(variance + layers[slot].epsilon)))
    masks = [] if mask is None else [mask[:, :, None]]
    setting = Setting(moving, masks, *dropout_masks)
    given = Arguments([sequences], list(states), *_weights(cell, spec))
    path, states, statistics = recurrence(spec, plan, training, given, setting)

    # One trace of a program serves all sizes, so that what it gives has none.
    sizes = (*sequences.shape[:2], cell.units)
    states = [tf.ensure_shape(state, sizes[::2]) for state in states]
    of_place = dict(zip(spec.learning, statistics, strict=True))
    learned = {}
    if of_place:
        alive = tf.ones(tf.shape(sequences)[:2], "bool") if mask is None else mask
        count = tf.reduce_sum(tf.cast(alive, spec.dtype), axis=0)[:, None]
    for slot, place in places.items():
        if place in of_place:
            learned[slot] = layers[slot].batch_statistics(*of_place[place], count, MIN_SEQUENCES)
    return tf.ensure_shape(path[0], sizes) if path else None, states, learned


def _is_open(size: int | None) -> bool:
    """Whether programs must serve more sizes than the one at hand."""
    return size is None or tf.executing_eagerly()


def _is_overridden(cell: type[NormCell]) -> bool:
    """Whether a subclass computes a step of its own, of which the gradient knows nothing."""
    methods = ("gradient_cell", "project_inputs", "step", "step_weights", "dropout_masks")
    owners = [next(c for c in cell.__mro__ if method in vars(c)) for method in methods]
    known = next(c for c in cell.__mro__ if "gradient_cell" in vars(c)).__mro__
    return any(owner not in known for owner in owners)


def _norm(layer: Any, training: bool) -> Norm | bool:
    """The norm that a slot's layer computes, None for no layer, False for one not covered.

    Rows that fill a batch up are zeros, which a norm of rows divides by its epsilon.
    """
    if layer is None:
        return None
    if type(layer) is LayerNormalization:
        covered = layer.epsilon_placement == "inside" and layer.ddof == 0 and layer.epsilon > 0
        return covered and RowNorm(True, layer.epsilon)
    if type(layer) is TimestepBatchNormalization:
        return BatchNorm(layer.epsilon, learning=bool(training and layer.trainable))
    covered = type(layer) is RMSNormalization and layer.epsilon > 0
    return covered and RowNorm(False, layer.epsilon)


def _weights(cell: NormCell, spec: Spec) -> tuple[Any, Any, Vectors]:
    """W and U; and gains and biases, ones and zeros where there are none."""
    layers, weights = cell.slot_layers(), cell.step_weights()

    def cast(weight: Any) -> Any:
        return tf.cast(weight, spec.dtype)

    def of_slot(slot: str) -> list[Any]:
        layer, width = layers.get(slot), cell.slots.widths.get(slot, cell.units)
        # RMSNormalization calls its gain `scale`.
        gamma = getattr(layer, "gamma", getattr(layer, "scale", None))
        beta = getattr(layer, "beta", None)
        return [
            tf.ones([width], spec.dtype) if gamma is None else cast(gamma),
            tf.zeros([width], spec.dtype) if beta is None else cast(beta),
        ]

    vectors: list[Any] = []
    biases = (weights.bias, weights.recurrent_bias, None)
    for slots, bias in zip((*slots_of_kernels(cell), ["state_norm"]), biases, strict=True):
        gamma, beta = side_by_side([of_slot(slot) for slot in slots])
        vectors += [gamma, beta if bias is None else beta + cast(bias)]
    return cast(weights.kernel), cast(weights.recurrent_kernel), Vectors(*vectors)
