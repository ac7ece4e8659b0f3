"""Run a cell over sequences with the custom gradient."""

import dataclasses
import importlib
from collections import ChainMap
from collections.abc import Hashable, Iterable
from types import ModuleType
from typing import Any

import keras
from keras import ops

from keras_norm.keras_internals import operations_are_watched
from keras_norm.ops.grouped_norm import GroupedNorm, group_norms
from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.ops.timestep_norm import TimestepNorm
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.core.operations import apply_masks, fold_weights
from keras_norm.rnn.core.recurrence import Norm, Recurrence, Slot, Tree, step_norm
from keras_norm.rnn.norm_form import JOINT_SLOT
from keras_norm.rnn.random_masks import Masks
from keras_norm.rnn.sequence_inputs import Results, SequenceInputs, batch_statistics, time_first
from keras_norm.typing import Tensor, Tensors

# Keras backends for which this package has a custom gradient of the loop over time.
BACKENDS = ("jax", "tensorflow", "torch")

# Methods that compute a timestep of a cell. If a subclass overrides one of these methods, the
# inherited `backward_step` is wrong. The custom gradient then needs the subclass' `backward_step`.
STEP_METHODS = (
    "forward_step",
    "step",
    "project_inputs",
    "step_weights",
    "activate",
    "draw_masks",
    "read_by_step",
    "step_options",
    "zoneout_rates",
    "has_custom_gradient",
)


def recurrence_of(cell: NormCell, training: bool, drawn: Masks) -> Recurrence | None:
    """Describe the recurrence of a cell; None if the custom gradient does not support the cell.

    It supports the default activations, and layers with a method `step_norm` or no norm in every
    slot.
    """
    if not cell.has_custom_gradient() or not _gradient_fits_step(type(cell)):
        return None
    if keras.backend.backend() == "tensorflow" and operations_are_watched():
        return None
    norms = {slot: step_norm(layer, training) for slot, layer in cell.slot_layers().items()}
    if not all(map(_is_supported, norms.values())):
        return None
    of_kernels, joint = cell.kernel_slots(), cell.joint_slots()
    inner = {slot: n for slot, n in cell.slots.widths.items() if slot not in ChainMap(*of_kernels)}
    masks = len(drawn.inputs), len(drawn.recurrent)
    if joint:
        of_kernels = {"": sum(joint.values())}, {"": sum(joint.values())}

    def describe(slots: dict[str, int], center_kernel: bool) -> tuple[Slot, ...]:
        described = []
        for slot, width in slots.items():
            norm = norms.get(slot)
            if center_kernel and isinstance(norm, SampleNorm):
                # `fold_weights` subtracts the mean of each row from the kernel W. So each row of
                # x W has zero mean too, and the norm subtracts no mean.
                norm = dataclasses.replace(norm, center=False)
            described.append(Slot(slot, width, norm))
        return tuple(described)

    # If all gates share a dropout mask, `fold_weights` subtracts the mean of each kernel row, so
    # the norm need not subtract the mean of x W. If each gate has its own dropout mask, x W may
    # have another mean than 0, even if each kernel row has zero mean. So the norm subtracts the
    # mean of x W.
    kernel, recurrent = (
        describe(slots, _centers_kernel(n)) for slots, n in zip(of_kernels, masks, strict=True)
    )
    centers_both = all(map(_centers_kernel, _masks_of_kernels(cell, *masks)))
    of_gates = _group_gates(describe(joint, centers_both), cell)
    slots = kernel, recurrent, describe(inner, False), of_gates
    options = _hashable_options(cell)
    zoneout: tuple[float, ...] = cell.zoneout_rates()
    if training:
        # In training, the masks of zoneout are drawn outside the compiled program. The program
        # reads only whether a zoneout rate is above 0, so all rates above 0 share one program.
        zoneout = tuple(rate > 0 for rate in zoneout)
    return Recurrence(type(cell), *slots, cell.groups(), zoneout, options, *masks)


def _hashable_options(cell: NormCell) -> tuple[tuple[str, Any], ...]:
    """Return the options of a cell as sorted pairs (name, value), a key for compiled programs.

    Raises:
        TypeError: an option is not hashable.
    """
    options = cell.step_options()
    for name, value in options.items():
        if not isinstance(value, Hashable) or isinstance(value, keras.Variable):
            raise TypeError(
                f"step_options of {type(cell).__name__} must return hashable values, such as "
                f"numbers, strings and tuples. Received: {name}={value!r}. Return tensors from "
                "step_weights."
            )
    return tuple(sorted(options.items()))


@time_first
def run(
    cell: NormCell,
    inputs: SequenceInputs,
    training: bool,
    *,
    recurrence: Recurrence,
    return_sequences: bool,
) -> Results:
    """Run a cell over sequences with the custom gradient; see `loop.run` for the arguments.

    `recurrence` is the result of `recurrence_of` for the cell.

    The backend derives the gradient of the operations before and after the recurrence, such as the
    transposition of the inputs.
    """
    layers = cell.slot_layers()
    counts = inputs.count_sequences({slot: layers[slot] for slot in recurrence.learning})
    moving: dict[str, Tensors] = {}
    for slot, norm in recurrence.norms.items():
        if isinstance(norm, TimestepNorm):
            rows = inputs.moving_statistics(layers[slot], norm, counts.get(slot))
            moving[slot] = [s[:, None] if len(s.shape) == 2 else s for s in rows]
    input_masks, recurrent_masks = inputs.dropout
    outputs, last, statistics = load_adapter().run(
        recurrence,
        apply_masks(input_masks, inputs.x),
        inputs.states,
        weights_of(cell, recurrence, inputs.dtype),
        {"moving": moving, "dropout": recurrent_masks, **inputs.per_step},
        return_sequences=return_sequences,
        training=training,
    )
    return (outputs[0] if outputs else None), last, batch_statistics(statistics, counts)


def _group_gates(gates: tuple[Slot, ...], cell: NormCell) -> tuple[Slot, ...]:
    """If all gates have equal norms of x W + h U, combine these norms to one `GroupedNorm`.

    On PyTorch the gates keep their norms, because LayerNorm is one operation there.
    """
    gammas = [getattr(cell.slot_layers().get(gate.name), "gamma", None) for gate in gates]
    grouped = group_norms([gate.norm for gate in gates], gammas)
    if grouped is None or keras.backend.backend() == "torch":
        return gates
    return (Slot(JOINT_SLOT, sum(gate.width for gate in gates), grouped),)


def load_adapter() -> ModuleType:
    """Import the module with the custom gradient of the current Keras backend."""
    return importlib.import_module(f"keras_norm.rnn.core.{keras.backend.backend()}_gradient")


def weights_of(cell: NormCell, recurrence: Recurrence, dtype: str) -> Tree:
    """Collect the weights of a recurrence; `fold_weights` changes the kernels and the biases."""
    layers, of_kernels = cell.slot_layers(), cell.kernel_slots()

    def weights_named(name: str, slots: Iterable[str]) -> dict[str, Tensor]:
        found = {slot: getattr(layers.get(slot), name, None) for slot in slots}
        return {slot: ops.cast(w, dtype) for slot, w in found.items() if w is not None}

    masks = _masks_of_kernels(cell, recurrence.input_masks, recurrence.recurrent_masks)
    norms = {slot: layer.step_norm(False) for slot, layer in layers.items()}
    centered = [
        slot
        for slots, n in zip(of_kernels, masks, strict=True)
        for slot in slots
        if isinstance(norms.get(slot), SampleNorm) and norms[slot].center and _centers_kernel(n)
    ]
    betas = weights_named("beta", ChainMap(*of_kernels))
    given, added = cell.step_weights().cast(dtype), cell.added_slots()
    folded = fold_weights(given, of_kernels, centered, betas, added)
    gamma = weights_named("gamma", layers)
    if gamma and any(isinstance(slot.norm, GroupedNorm) for slot in recurrence.joint):
        gamma = {JOINT_SLOT: ops.concatenate([gamma[slot] for slot in cell.joint_slots()])}
    weights = {
        **folded._asdict(),
        "gamma": gamma,
        "beta": weights_named("beta", [slot.name for slot in recurrence.inner]),
    }
    return {name: w for name, w in weights.items() if w is not None}


def _masks_of_kernels(cell: NormCell, *masks: int) -> tuple[int, ...]:
    """Return how many dropout masks the inputs of W have, and how many the inputs of U have.

    A joint form has norms of x W + h U, so both kernels get the larger number.
    """
    return (max(masks),) * len(masks) if cell.joint_slots() else masks


def _centers_kernel(masks: int) -> bool:
    """Return whether to subtract from each row of a kernel the mean of the row.

    Return False if the inputs of the kernel have several dropout masks. Return False on PyTorch:
    LayerNorm is one operation there, which subtracts the mean itself.
    """
    return masks < 2 and keras.backend.backend() != "torch"


def _is_supported(norm: Norm | None) -> bool:
    """Return whether the custom gradient supports the norm of a layer.

    LayerNorm and RMSNorm without epsilon are not supported: they would divide padding by 0. A
    subclass of `SampleNorm` is not supported, because `Product` contains the gradient of
    `SampleNorm`.
    """
    if isinstance(norm, SampleNorm):
        return type(norm) is SampleNorm and norm.epsilon > 0
    # On TensorFlow the batch may be padded or split in two: a norm with batch statistics would be
    # wrong. `TimestepNorm` is supported: it masks the padding, and its batch is not split.
    return norm is not None and (isinstance(norm, TimestepNorm) or not norm.per_batch)


def _gradient_fits_step(cls: type) -> bool:
    """Return False if a class overrides one of `STEP_METHODS` without a new `backward_step`."""

    def owner(method: str) -> type:
        return next((c for c in cls.__mro__ if method in vars(c)), object)

    return all(issubclass(owner("backward_step"), owner(method)) for method in STEP_METHODS)
