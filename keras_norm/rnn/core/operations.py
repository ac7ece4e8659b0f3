"""Operations of one timestep in `keras.ops`; on PyTorch, `torch_operations` replaces some."""

import itertools
from collections.abc import Collection, Mapping, Sequence

import keras
import numpy as np
from keras import ops

from keras_norm.rnn.core.recurrence import CANDIDATE, GATE, Weights
from keras_norm.typing import Tensor, Tensors


class Zero:
    """The number 0: `x + Zero()` returns the tensor x itself, without an operation."""

    def __add__(self, other: Tensor) -> Tensor:
        return other

    __radd__ = __add__


def activate(z: Tensor | Tensors, kinds: Sequence[str]) -> Tensors:
    """Activate all gates with one tanh, because sigmoid(z) = tanh(z / 2) / 2 + 1 / 2.

    A compiler computes one elementwise kernel for all gates. If each gate had its own function, the
    kernel of each consumer would compute the gate again.

    Args:
        z: pre-activations (..., len(kinds) * units), or a list of gates (..., units).
        kinds: `GATE` or `CANDIDATE` for each gate.
    """
    z = side_by_side(z) if isinstance(z, list) else z
    units = z.shape[-1] // len(kinds)
    if set(kinds) == {CANDIDATE}:
        gates = ops.tanh(z)
    else:
        factor = np.repeat([0.5 if kind == GATE else 1.0 for kind in kinds], units)
        shift = np.repeat([0.5 if kind == GATE else 0.0 for kind in kinds], units)
        a, d = (ops.convert_to_tensor(v, dtype=z.dtype) for v in (factor, shift))
        gates = a * ops.tanh(a * z) + d
    return [gates] if len(kinds) == 1 else ops.split(gates, len(kinds), axis=-1)


def gate_gradient(kind: str, y: Tensor, dy: Tensor) -> Tensor:
    """Compute the gradient of a gate's pre-activation from the gradient of the activated gate.

    Args:
        kind: `GATE` or `CANDIDATE`.
        y: the activated gate.
        dy: gradient of `y`.
    """
    return dy * y * (1.0 - y) if kind == GATE else dy * (1.0 - y * y)


def interpolate(z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Compute z * a + (1 - z) * b."""
    return z * a + (1.0 - z) * b


def side_by_side(arrays: list[Tensor]) -> Tensor:
    """Concatenate the columns of arrays."""
    return arrays[0] if len(arrays) == 1 else ops.concatenate(arrays, axis=-1)


def split_columns(a: Tensor, widths: list[int]) -> list[Tensor]:
    """Split the columns of an array into groups of these widths."""
    if len(widths) == 1:
        return [a]
    ends = list(itertools.accumulate(widths))
    return [a[..., start:end] for start, end in zip([0, *ends], ends, strict=False)]


def project(x: Tensor, kernel: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
    """Multiply the inputs, after dropout, with a kernel.

    Args:
        x: (batch, features) or (time, batch, features).
        kernel: (features, gates * units).
        masks: dropout masks (batch, features): none, one for all gates, or one for each gate. All
            timesteps of a sequence share a mask (Gal and Ghahramani 2016, arXiv 1512.05287).
    """
    return multiply(apply_masks(masks, x), kernel)


def apply_masks(masks: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """Apply dropout masks to x: return [x * mask for each mask], or [x] if there is no mask."""
    return [x * mask for mask in masks] or [x]


def multiply(xs: Sequence[Tensor], kernel: Tensor) -> Tensor:
    """Multiply inputs with a kernel.

    Args:
        xs: one input for the whole kernel, or one input for the columns of each gate.
        kernel: (features, gates * units).
    """
    if len(xs) > 1:
        kernels = ops.split(kernel, len(xs), axis=1)
        return side_by_side(list(map(ops.matmul, xs, kernels)))
    return ops.matmul(xs[0], kernel)


def fold_weights(
    weights: Weights,
    kernel_slots: tuple[dict[str, int], dict[str, int]],
    centered: Collection[str],
    betas: Mapping[str, Tensor],
    added: Collection[str],
) -> Weights:
    """Subtract from each kernel row its mean, and add the weight beta of each norm to a bias.

    The loop over time then needs fewer operations at each timestep.

    Args:
        weights: weights of a cell.
        kernel_slots: names of the norms of x W, and of those of h U, with their widths.
        centered: names of norms: the mean of each row is subtracted in their kernel columns.
        betas: the weight beta of each norm, by name.
        added: names of norms whose beta is added to the bias of x W, and not to the bias of h U.
    """
    kernels = [weights.kernel, weights.recurrent_kernel]
    biases = [weights.bias, weights.recurrent_bias]
    for side, slots in enumerate(kernel_slots):
        blocks = split_columns(kernels[side], [*slots.values()])
        for k, slot in enumerate(slots):
            if slot in centered:
                blocks[k] = blocks[k] - ops.mean(blocks[k], axis=1, keepdims=True)
        if any(slot in centered for slot in slots):
            kernels[side] = ops.concatenate(blocks, axis=1)
        # In a joint form, both dicts of `kernel_slots` have the same norms: those of x W + h U. Add
        # the beta of such a norm only once, to the bias of x W.
        own = [slot for slot in slots if side == 0 or slot not in kernel_slots[0]]
        for slot in [slot for slot in own if slot in betas]:
            target = 0 if slot in added else side
            of_slots = [
                betas[slot] if other == slot else ops.zeros_like(kernels[side][0, :width])
                for other, width in slots.items()
            ]
            beta, bias = ops.concatenate(of_slots), biases[target]
            # Without the factor 1.0, bias and beta would share one gradient tensor. TensorFlow's
            # tape counts one reference too many to a shared tensor, so Python would never free the
            # graph.
            biases[target] = beta if bias is None else bias + 1.0 * beta
    return Weights(kernels[0], kernels[1], biases[0], biases[1], weights.cell)


if keras.backend.backend() == "torch":
    from keras_norm.rnn.core.torch_operations import (  # noqa: F401
        activate,
        gate_gradient,
        interpolate,
        side_by_side,
        split_columns,
    )
