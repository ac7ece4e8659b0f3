"""Options of an LSTM's step: a clipped c, peepholes (Gers et al. 2002), and a projection of h."""

from keras import ops

from keras_norm.rnn.core.operations import split_columns
from keras_norm.rnn.core.recurrence import ApplyNorm, CellWeights, WeightGradients
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.typing import Tensor, Tensors

# Name of the option that limits the cell state c: |c| <= cell_clip.
CELL_CLIP = "cell_clip"
# Names of the peephole weights (units,) of the gates i, f and o.
INPUT, FORGET, OUTPUT = PEEPHOLES = ("input_peephole", "forget_peephole", "output_peephole")
# Name of the projection matrix (units, projection_units), and name of the norm of the projected
# output.
PROJECTION_KERNEL, PROJECTION_SLOT = "projection_kernel", "projection_norm"


def clip_state(c: Tensor, options: CellWeights) -> Tensor:
    """Clip the cell state c to [-bound, bound]; return c if the cell has no bound."""
    bound = options.get(CELL_CLIP)
    return c if bound is None else ops.clip(c, -bound, bound)


def clip_gradient(c: Tensor, dc: Tensor, options: CellWeights) -> Tensor:
    """Return the gradient of the cell state before clipping: 0 where c was clipped.

    Args:
        c: the clipped cell state.
        dc: gradient of `c`.
        options: options of the cell.
    """
    bound = options.get(CELL_CLIP)
    return dc if bound is None else ops.where(ops.abs(c) < bound, dc, 0.0)


def read_old_state(z: Tensor, c: Tensor, weights: CellWeights) -> tuple[Tensors, Tensor]:
    """Add the peepholes of the cell state c to the pre-activations of the gates i and f.

    Args:
        z: pre-activations of i, f, g and o, (batch, 4 * units).
        c: the cell state before the step, (batch, units).
        weights: the weights of the cell.

    Returns:
        The list [z_i + p_i * c, z_f + p_f * c, z_g], and the unchanged z_o.
    """
    z_i, z_f, z_g, z_o = split_columns(z, [c.shape[-1]] * 4)
    return [z_i + weights[INPUT] * c, z_f + weights[FORGET] * c, z_g], z_o


def peephole_gradients(
    di: Tensor, df: Tensor, do: Tensor, old: Tensor, new: Tensor
) -> WeightGradients:
    """Return the gradients of the peepholes for each sample: di * old, df * old and do * new.

    `di`, `df` and `do` are gradients of pre-activations, and `old` and `new` the cell states before
    and after the step.
    """
    return {INPUT: di * old, FORGET: df * old, OUTPUT: do * new}


def project_output(m: Tensor, weights: CellWeights, norm: ApplyNorm) -> tuple[Tensor, Tensors]:
    """Project the output m of the cell to h = norm(m P).

    Args:
        m: the output of the cell without a projection (batch, units).
        weights: weights of the cell.
        norm: norms of the step.

    Returns:
        h and the list [m P]; without a projection, m and an empty list.
    """
    if PROJECTION_KERNEL not in weights:
        return m, []
    a = ops.matmul(m, weights[PROJECTION_KERNEL])
    return norm(PROJECTION_SLOT, a), [a]


def projection_gradient(
    m: Tensor, residuals: Tensors, dh: Tensor, weights: CellWeights, norm: StepNorms
) -> tuple[Tensor, WeightGradients]:
    """Return the gradient of m, and the factors of the gradient of P: (m, gradient of m P).

    The loop over time stores the factors. After the loop, one matrix product multiplies them.

    Args:
        m: the output of the cell without a projection (batch, units).
        residuals: the list [m P] from `project_output`.
        dh: the gradient of h.
        weights: weights of the cell.
        norm: norms of the step.
    """
    da = norm.backward(PROJECTION_SLOT, residuals[0], dh)
    return ops.matmul(da, ops.transpose(weights[PROJECTION_KERNEL])), {PROJECTION_KERNEL: (m, da)}
