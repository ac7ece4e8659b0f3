"""The norms of a recurrence at one timestep."""

from keras_norm.rnn.core.recurrence import Recurrence, Tree
from keras_norm.typing import Tensor, Tensors


class StepNorms:
    """The norms of a recurrence at one timestep; a call normalizes a tensor with a slot's norm.

    Args:
        recurrence: the recurrence.
        weights: weights of the recurrence.
        constants: constants of this timestep, "unmasked" and "moving".
        statistics: in the backward pass, the statistics of each slot. In the forward pass empty:
            a call computes the statistics and stores them here.

    Attributes:
        gradients: gradients of gamma and beta of each slot, (batch, width) or, for
            a batch norm, (1, width). `backward` stores them.
    """

    def __init__(
        self,
        recurrence: Recurrence,
        weights: Tree,
        constants: Tree,
        statistics: dict[str, Tensors] | None = None,
    ) -> None:
        self.norms = {slot.name: slot.norm for slot in recurrence.slots}
        self.gamma, self.beta = weights["gamma"], weights["beta"]
        self.unmasked, self.moving = constants.get("unmasked"), constants.get("moving", {})
        self.statistics: dict[str, Tensors] = {} if statistics is None else statistics
        self.gradients: dict[str, dict[str, Tensor]] = {}

    def __call__(self, name: str, a: Tensor) -> Tensor:
        """Normalize `a`; without a norm return `a`."""
        norm = self.norms.get(name)
        if norm is None:
            return a
        if name not in self.statistics:
            moving = self.moving.get(name, [])
            self.statistics[name] = norm.statistics(a, self.unmasked, moving)
        y = norm.apply(a, self.statistics[name], self.gamma.get(name))
        return y + self.beta[name] if name in self.beta else y

    def backward(self, name: str, a: Tensor, dy: Tensor) -> Tensor:
        """Return the gradient of `a`, and store the gradients of gamma and beta."""
        norm = self.norms.get(name)
        if norm is None:
            return dy
        of_slot = self.statistics[name], self.gamma.get(name), self.unmasked
        da, d_gamma, d_beta = norm.backward(a, dy, *of_slot)
        self.gradients[name] = {"gamma": d_gamma, "beta": d_beta}
        return da
