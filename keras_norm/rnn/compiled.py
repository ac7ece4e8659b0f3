"""Run a cell over sequences with the custom gradient."""

import dataclasses
import importlib
from collections import ChainMap
from types import ModuleType
from typing import Any

import keras
from keras import ops

from keras_norm.keras_internals import operations_are_watched
from keras_norm.layers.rms_norm import RMSNormalization
from keras_norm.ops.moments import statistics_dtype
from keras_norm.ops.projection import apply_masks
from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.ops.timestep_norm import MIN_SEQUENCES, TimestepNorm
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.core.operations import side_by_side
from keras_norm.rnn.core.recurrence import Norm, Recurrence, Slot, Tree
from keras_norm.rnn.loop import Results, Statistics
from keras_norm.typing import Tensor, Tensors

# Backends with a custom gradient.
BACKENDS = ("jax", "tensorflow", "torch")

# Methods of a cell that must belong to the class with `backward_step`: a subclass that overrides
# one of them computes another step.
STEP_METHODS = (
    "forward_step",
    "step",
    "project_inputs",
    "step_weights",
    "activate",
    "dropout_masks",
    "has_custom_gradient",
)

# Methods that a subclass of a norm layer may override without a `step_norm` of its own.
SETUP_METHODS = ("build", "get_config", "from_config")


def recurrence_of(
    cell: NormCell, training: bool, dropout_masks: tuple[Tensors, Tensors]
) -> Recurrence | None:
    """Describe the recurrence of a cell; None if the custom gradient does not support the cell.

    It supports the default activations, and layers with a method `step_norm` or no norm in every
    slot.
    """
    if not cell.has_custom_gradient() or not _agree(type(cell), "backward_step", STEP_METHODS):
        return None
    if keras.backend.backend() == "tensorflow" and operations_are_watched():
        return None
    layers = cell.slot_layers()
    norms: dict[str, Any] = {
        slot: _step_norm(layers.get(slot), training) for slot in cell.slots.widths
    }
    if False in norms.values():
        return None
    of_kernels = cell.kernel_slots()
    inner = {slot: n for slot, n in cell.slots.widths.items() if slot not in ChainMap(*of_kernels)}
    masks = tuple(map(len, dropout_masks))

    def describe(slots: dict[str, int], center_kernel: bool) -> tuple[Slot, ...]:
        described = []
        for slot, width in slots.items():
            norm: Norm | None = norms.get(slot)
            if center_kernel and isinstance(norm, SampleNorm):
                # The rows of the kernel have zero mean, and so have those of the product.
                norm = dataclasses.replace(norm, center=False)
            described.append(Slot(slot, width, norm))
        return tuple(described)

    # A kernel with rows of zero mean gives a product with rows of zero mean, unless each gate has
    # its own dropout mask. The norm of such a product subtracts the mean itself.
    kernel, recurrent = (
        describe(slots, _centers_kernel(n)) for slots, n in zip(of_kernels, masks, strict=True)
    )
    return Recurrence(type(cell), kernel, recurrent, describe(inner, False), *masks)


def run(
    cell: NormCell,
    recurrence: Recurrence,
    sequences: Tensor,
    states: Tensors,
    mask: Tensor | None,
    training: bool,
    dropout_masks: tuple[Tensors, Tensors],
    *,
    return_sequences: bool,
) -> Results:
    """Run a cell over sequences; arguments and results as for `loop.run`.

    Everything before and after the recurrence, such as the transposition of the inputs, is left to
    the gradient that the backend derives.
    """
    dtype, layers = statistics_dtype(cell.compute_dtype), cell.slot_layers()
    input_masks, recurrent_masks = ([ops.cast(m, dtype) for m in masks] for masks in dropout_masks)
    x = ops.cast(ops.swapaxes(sequences, 0, 1), dtype)
    xs = apply_masks(input_masks, x)
    steps = ops.arange(ops.shape(x)[0])
    moving: dict[str, Tensors] = {}
    for slot in recurrence.slots:
        if isinstance(slot.norm, TimestepNorm):
            mean, variance = layers[slot.name].statistics_at(steps, dtype)
            r = ops.rsqrt(variance + slot.norm.epsilon)
            moving[slot.name] = [mean[:, None], r[:, None]]
    constants: Tree = {"moving": moving, "dropout": recurrent_masks}
    if mask is not None:
        constants["unmasked"] = ops.swapaxes(mask, 0, 1)[..., None]
    outputs, last, statistics = load_adapter().run(
        recurrence,
        xs,
        [ops.cast(state, dtype) for state in states],
        weights_of(cell, recurrence, dtype),
        constants,
        return_sequences=return_sequences,
        training=training,
    )
    batch: Statistics = {}
    if recurrence.learning:
        unmasked = ops.ones_like(x[:, :, :1]) if mask is None else constants["unmasked"]
        count = ops.sum(ops.cast(unmasked, dtype), axis=1)
        for name, moments in statistics.items():
            mean, variance = (ops.stop_gradient(moment[:, 0]) for moment in moments)
            batch[name] = layers[name].batch_statistics(mean, variance, count, MIN_SEQUENCES)
    return None if outputs is None else ops.swapaxes(outputs, 0, 1), last, batch


def load_adapter() -> ModuleType:
    """Import the custom gradient of the current backend."""
    return importlib.import_module(f"keras_norm.rnn.core.{keras.backend.backend()}_gradient")


def weights_of(cell: NormCell, recurrence: Recurrence, dtype: str) -> Tree:
    """Collect the weights of a recurrence: kernels centered, and betas added to the bias."""
    layers, given = cell.slot_layers(), cell.step_weights().cast(dtype)

    def cast(weight: Tensor | None) -> Tensor | None:
        return None if weight is None else ops.cast(weight, dtype)

    def gamma(slot: Slot) -> Tensor | None:
        # RMSNormalization calls its gamma `scale`.
        layer = layers.get(slot.name)
        return cast(
            getattr(layer, "scale" if isinstance(layer, RMSNormalization) else "gamma", None)
        )

    def beta(slot: Slot) -> Tensor | None:
        return cast(getattr(layers.get(slot.name), "beta", None))

    biases = [given.bias, given.recurrent_bias]
    sides = recurrence.kernel, recurrence.recurrent
    for side, slots in enumerate(sides):
        for k, slot in enumerate(slots):
            target = 0 if slot.name in cell.added_slots() else side
            biases[target] = _add_to_group(biases[target], beta(slot), slots, k, dtype)
    gammas = {slot.name: gamma(slot) for slot in recurrence.slots}
    betas = {slot.name: beta(slot) for slot in recurrence.inner}
    weights = {
        "kernel": _center(given.kernel, recurrence.kernel, layers, recurrence.input_masks),
        "recurrent_kernel": _center(
            given.recurrent_kernel, recurrence.recurrent, layers, recurrence.recurrent_masks
        ),
        "bias": biases[0],
        "recurrent_bias": biases[1],
        "gamma": {name: w for name, w in gammas.items() if w is not None},
        "beta": {name: w for name, w in betas.items() if w is not None},
        "cell": given.cell,
    }
    return {name: w for name, w in weights.items() if w is not None}


def _add_to_group(
    bias: Tensor | None, beta: Tensor | None, slots: tuple[Slot, ...], group: int, dtype: str
) -> Tensor | None:
    """Add the beta of a group of columns to the bias of all columns."""
    if beta is None:
        return bias
    parts = [ops.zeros((slot.width,), dtype) for slot in slots]
    parts[group] = beta
    beta = ops.concatenate(parts)
    # Without the factor, bias and beta have the same gradient tensor. TensorFlow's tape returns
    # such a tensor with one reference too many, and then the graph is never freed.
    return beta if bias is None else bias + 1.0 * beta


def _center(
    kernel: Tensor, slots: tuple[Slot, ...], layers: dict[str, keras.layers.Layer], masks: int
) -> Tensor:
    """Subtract the mean of each row in the columns of each LayerNormalization.

    Where `_centers_kernel` is False, return the kernel unchanged.
    """
    if not _centers_kernel(masks):
        return kernel
    groups, start = [], 0
    for slot in slots:
        group = kernel[:, start : start + slot.width]
        if isinstance(slot.norm, SampleNorm) and layers[slot.name].step_norm(False).center:
            group = group - ops.mean(group, axis=1, keepdims=True)
        groups.append(group)
        start += slot.width
    return side_by_side(groups)


def _centers_kernel(masks: int) -> bool:
    """Return whether kernels are centered, given the number of dropout masks.

    On PyTorch they are not: LayerNorm is one operation there, which subtracts the mean itself.
    """
    return masks < 2 and keras.backend.backend() != "torch"


def _step_norm(layer: keras.layers.Layer | None, training: bool) -> Norm | bool | None:
    """Return the norm that a layer computes, None for no layer, False for an unsupported layer.

    LayerNorm and RMSNorm without epsilon are not supported: they would divide padding by 0. A
    subclass of `SampleNorm` is not supported, because `Product` contains the gradient of
    `SampleNorm`.
    """
    if layer is None:
        return None
    cls = type(layer)
    if not hasattr(cls, "step_norm") or _is_changed(cls):
        return False
    norm: Norm = layer.step_norm(training)
    if isinstance(norm, SampleNorm) and (type(norm) is not SampleNorm or norm.epsilon <= 0):
        return False
    # The batch is padded and split, unless a norm is a `TimestepNorm`, which masks the padding.
    return False if norm.per_batch and not isinstance(norm, TimestepNorm) else norm


def _is_changed(cls: type) -> bool:
    """Return whether a subclass of the class with `step_norm` overrides another method.

    Any method can belong to the computation, except the methods of `SETUP_METHODS`.
    """
    k = next(k for k, c in enumerate(cls.__mro__) if "step_norm" in vars(c))
    owner, subclasses = cls.__mro__[k], cls.__mro__[:k]
    names = {name for subclass in subclasses for name in vars(subclass)} - {*SETUP_METHODS}
    return any(callable(getattr(owner, name, None)) for name in names if not name.startswith("__"))


def _agree(cls: type, name: str, others: tuple[str, ...]) -> bool:
    """Return whether no subclass of the class that defines `name` overrides another method."""

    def owner(method: str) -> type:
        return next((c for c in cls.__mro__ if method in vars(c)), object)

    return all(issubclass(owner(name), owner(other)) for other in others)
