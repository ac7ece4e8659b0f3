"""A product with a kernel, under dropout."""

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_norm.ops.scan import loops_are_portable


def project(x: Any, kernel: Any, masks: Sequence[Any] = ()) -> Any:
    """Multiply x with a kernel, x dropped out.

    Args:
        x: (batch, features) or (time, batch, features).
        kernel: (features, gates * units).
        masks: none, one mask (batch, features), or one for each gate. All timesteps of a sequence
            share them (Gal and Ghahramani 2016, arXiv 1512.05287).
    """
    return multiply(under(masks, x), kernel)


def under(masks: Sequence[Any], x: Any) -> list[Any]:
    """X under each dropout mask, or as it is where there is none."""
    return [x * mask for mask in masks] or [x]


def multiply(xs: Sequence[Any], kernel: Any) -> Any:
    """One x times all of a kernel, or the x of each gate times the columns of that gate."""
    if len(xs) > 1:
        kernels = ops.split(kernel, len(xs), axis=1)
        return ops.concatenate(list(map(ops.matmul, xs, kernels)), axis=-1)
    if len(xs[0].shape) == 3 and loops_are_portable():
        # One operation of TFLite's. `ops.matmul` makes x flat, and its product what only the run
        # knows: TFLite plans all that comes after such a shape anew at every call.
        return ops.einsum("tbi,ij->tbj", xs[0], kernel)
    return ops.matmul(xs[0], kernel)
