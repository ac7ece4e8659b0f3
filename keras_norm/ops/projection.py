"""Multiply inputs with a kernel, with dropout on the inputs."""

from collections.abc import Sequence

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
