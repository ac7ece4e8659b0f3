"""Activations of gates in one elementwise kernel."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_norm.typing import Tensor, Tensors

GATE = "gate"  # sigmoid, `recurrent_activation`
CANDIDATE = "candidate"  # tanh, `activation`


class StepResult(NamedTuple):
    """Result of a cell's `forward_step`.

    Args:
        states: the new states; the first one is the output.
        gates: arrays (batch, units), as many as x W has columns of `units`. They replace x W in
            memory, and the backward step reads them.
        residuals: further arrays that the backward step reads.
    """

    states: Tensors
    gates: Tensors
    residuals: Tensors


class StepGradients(NamedTuple):
    """Result of a cell's `backward_step`.

    Args:
        x: gradient of each group of the normalized x W.
        u: gradient of each group of the normalized h U. If it is the same object as in `x`, the
            array is stored once.
        states: gradients of the states before the step, without those through h U; None for zeros.
        weights: gradients of the cell's further weights for each sample (batch, ...), by name.
    """

    x: Tensors
    u: Tensors
    states: list[Tensor | None]
    weights: dict[str, Tensor]


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
