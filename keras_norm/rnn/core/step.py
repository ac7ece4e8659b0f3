"""The types of a cell's step: its weights, its results, and the functions that it receives."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from keras import ops

from keras_norm.typing import Tensor, Tensors

GATE = "gate"  # sigmoid, `recurrent_activation`
CANDIDATE = "candidate"  # tanh, `activation`

# A function (slot, tensor) -> tensor: it applies the norm with the name `slot` to the tensor.
ApplyNorm: TypeAlias = Callable[[str, Tensor], Tensor]
# A function (pre-activations, kinds of the gates) -> activated gates.
Activate: TypeAlias = Callable[[Tensor, Sequence[str]], Tensors]
# Weights of a cell by name, beside its kernels and biases.
CellWeights: TypeAlias = dict[str, Tensor]


class Weights(NamedTuple):
    """Weights that a cell uses in one timestep: kernel W, recurrent kernel U, and the biases.

    `bias` is the bias of x W, and `recurrent_bias` the bias of h U. A bias is None if the cell does
    not have it. `cell` has further weights of the cell by name, for example peephole weights.
    """

    kernel: Tensor
    recurrent_kernel: Tensor
    bias: Tensor | None
    recurrent_bias: Tensor | None = None
    cell: CellWeights = {}  # noqa: RUF012, because nothing changes it

    def cast(self, dtype: str) -> "Weights":
        """Cast all weights."""

        def cast(weight: Tensor | None) -> Tensor | None:
            return None if weight is None else ops.cast(weight, dtype)

        kernel, recurrent_kernel, bias, recurrent_bias = map(cast, self[:-1])
        of_cell = {name: cast(weight) for name, weight in self.cell.items()}
        return Weights(kernel, recurrent_kernel, bias, recurrent_bias, of_cell)


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
