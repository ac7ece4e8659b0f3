"""Project the output of a cell to fewer units (Sak et al. 2014)."""

from keras import ops

from keras_norm.rnn.core.recurrence import ApplyNorm, CellWeights, WeightGradients
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.typing import Tensor, Tensors

# Name of the kernel P (units, projection_units), and of the slot of m P.
KERNEL, SLOT = "projection_kernel", "projection_norm"


def project_output(m: Tensor, weights: CellWeights, norm: ApplyNorm) -> tuple[Tensor, Tensors]:
    """Return h = norm(m P), and m P as a list for `projection_gradient`; without P return m.

    Args:
        m: the output of the cell without a projection (batch, units).
        weights: weights of the cell.
        norm: norms of the step.
    """
    if KERNEL not in weights:
        return m, []
    a = ops.matmul(m, weights[KERNEL])
    return norm(SLOT, a), [a]


def projection_gradient(
    m: Tensor, residuals: Tensors, dh: Tensor, weights: CellWeights, norm: StepNorms
) -> tuple[Tensor, WeightGradients]:
    """Return the gradient of m, and that of P as the pair of the inputs and of the gradient of m P.

    Arguments as for `project_output`, with the list that it returned, and the gradient of h.
    """
    da = norm.backward(SLOT, residuals[0], dh)
    return ops.matmul(da, ops.transpose(weights[KERNEL])), {KERNEL: (m, da)}
