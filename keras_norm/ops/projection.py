"""Multiply inputs with a kernel, with dropout on the inputs."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_norm.typing import Tensor


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
    """Apply dropout masks to x: return [x * mask for each mask], or [x] without masks."""
    return [x * mask for mask in masks] or [x]


def multiply(xs: Sequence[Tensor], kernel: Tensor) -> Tensor:
    """Multiply inputs with a kernel.

    Args:
        xs: one input for the whole kernel, or one input for the columns of each gate.
        kernel: (features, gates * units).
    """
    if len(xs) > 1:
        kernels = ops.split(kernel, len(xs), axis=1)
        return ops.concatenate(list(map(ops.matmul, xs, kernels)), axis=-1)
    return ops.matmul(xs[0], kernel)


def matmul_samples(x: Tensor, kernel: Tensor) -> Tensor:
    """Multiply x (..., features) with a kernel (features, n)."""
    if len(x.shape) == 2 or not _merges_axes():
        return ops.matmul(x, kernel)
    product = ops.matmul(_merge_axes(x), kernel)
    return ops.reshape(product, (*ops.shape(x)[:-1], kernel.shape[-1]))


def contract_samples(x: Tensor, y: Tensor) -> Tensor:
    """Sum x^T y over all samples: (..., m) and (..., n) give (m, n)."""
    if len(x.shape) == 2 or _merges_axes():
        return ops.matmul(ops.transpose(_merge_axes(x)), _merge_axes(y))
    samples = list(range(len(x.shape) - 1))
    return ops.tensordot(x, y, axes=(samples, samples))


def _merges_axes() -> bool:
    """Return whether products merge the axes of time and batch.

    TensorFlow multiplies matrices faster. Elsewhere the axes stay: JAX cannot merge the axis of a
    batch that is divided between devices, and would gather the batch on each device.
    """
    return bool(keras.backend.backend() == "tensorflow")


def _merge_axes(x: Tensor) -> Tensor:
    return ops.reshape(x, (-1, x.shape[-1])) if len(x.shape) > 2 else x
