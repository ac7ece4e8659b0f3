"""Peepholes: gates of an LSTM that read the cell state (Gers et al. 2002)."""

from keras_norm.rnn.core.operations import split_columns
from keras_norm.rnn.core.recurrence import CellWeights
from keras_norm.typing import Tensor, Tensors

# Names of the weights (units,) of the gates i, f and o.
INPUT, FORGET, OUTPUT = PEEPHOLES = ("input_peephole", "forget_peephole", "output_peephole")


def has_peepholes(weights: CellWeights) -> bool:
    """Return whether the weights of a cell contain peepholes."""
    return OUTPUT in weights


def read_old_state(z: Tensor, c: Tensor, weights: CellWeights) -> tuple[Tensors, Tensor]:
    """Add the cell state before the step to the pre-activations of i and f.

    ::

        z_i + p_i * c        z_f + p_f * c

    Args:
        z: pre-activations of i, f, g and o, (batch, 4 * units).
        c: the cell state before the step, (batch, units).
        weights: the weights of the cell.

    Returns:
        The pre-activations of i, f and g, and that of o, which reads the new cell state.
    """
    z_i, z_f, z_g, z_o = split_columns(z, [c.shape[-1]] * 4)
    return [z_i + weights[INPUT] * c, z_f + weights[FORGET] * c, z_g], z_o


def read_new_state(z_o: Tensor, c: Tensor, weights: CellWeights) -> Tensor:
    """Add the cell state after the step to the pre-activation of o: z_o + p_o * c."""
    return z_o + weights[OUTPUT] * c


def peephole_gradients(
    di: Tensor, df: Tensor, do: Tensor, old: Tensor, new: Tensor
) -> dict[str, Tensor]:
    """Return the gradients of the peepholes for each sample, from those of the pre-activations.

    `old` and `new` are the cell states before and after the step.
    """
    return {INPUT: di * old, FORGET: df * old, OUTPUT: do * new}
