"""A product with a kernel, under dropout."""

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_norm.ops.scan import loops_are_portable


def project(x: Any, kernel: Any, masks: Any = None) -> Any:
    """Multiply x with a kernel, x dropped out.

    Several masks are one for each gate: gate g is (x * mask_g) @ kernel_g.

    Args:
        x: (batch, features) or (time, batch, features).
        kernel: (features, gates * units).
        masks: None, a mask (batch, features), or a list of one for each gate. All timesteps of a
            sequence share them (Gal and Ghahramani 2016, arXiv 1512.05287).
    """
    if masks is None and len(x.shape) == 3 and loops_are_portable():
        # One operation of TFLite's. `ops.matmul` makes x flat, and its product what only the run
        # knows: TFLite plans all that comes after such a shape anew at every call.
        return ops.einsum("tbi,ij->tbj", x, kernel)
    if masks is None:
        return ops.matmul(x, kernel)
    masks = list(masks) if isinstance(masks, Sequence) else [masks]
    kernels = ops.split(kernel, len(masks), axis=1)
    gates = [ops.matmul(x * m, k) for m, k in zip(masks, kernels, strict=True)]
    return gates[0] if len(gates) == 1 else ops.concatenate(gates, axis=-1)
