"""Operations of a step, which a backend may replace by faster ones of its own."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_norm.rnn.core.step import CANDIDATE, GATE
from keras_norm.typing import Tensor, Tensors


def activate(z: Tensor, kinds: Sequence[str]) -> Tensors:
    """Activate all gates with one tanh, because sigmoid(z) = tanh(z / 2) / 2 + 1 / 2.

    A compiler computes one elementwise kernel for all gates. If each gate had its own function, the
    kernel of each consumer would compute the gate again.

    Args:
        z: pre-activations (..., len(kinds) * units).
        kinds: `GATE` or `CANDIDATE` for each gate.
    """
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
    """Compute the gradient of a gate's pre-activation.

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
    ends = [sum(widths[: k + 1]) for k in range(len(widths) - 1)]
    groups: list[Tensor] = ops.split(a, ends, axis=-1)
    return groups


if keras.backend.backend() == "torch":
    from keras_norm.rnn.core.torch_operations import (  # noqa: F401
        activate,
        gate_gradient,
        interpolate,
        side_by_side,
        split_columns,
    )
