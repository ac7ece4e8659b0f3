"""The norms of a recurrence at one timestep, and their gradients."""

from collections.abc import Iterable, Mapping
from typing import Any

from keras_norm.ops.timestep_norm import with_latest
from keras_norm.rnn.core.recurrence import FusedNorm, Tree
from keras_norm.typing import Tensor, Tensors

WRONG_STATISTICS = "{}.statistics must return a list of tensors. Received: {}."
WRONG_GRADIENTS = (
    "{}.backward must return three gradients in a tuple: the gradients of the input, of gamma and "
    "of beta."
)
REPEATED = (
    "backward_step of {cell} must call norm.backward({slot!r}, a, dy) once. Received: a second "
    "call. A norm stores the statistics of one array in a timestep. Add a slot for another array."
)


class StepNorms:
    """The norms of a recurrence at one timestep: `norms("kernel_norm", a)` normalizes `a`.

    Args:
        cell: class of the cell.
        norms: norms by slot.
        weights: weights of the recurrence: gammas and betas by slot.
        constants: constants of this timestep, "unmasked" and "moving"; or of all timesteps at once.
        statistics: statistics by slot in the backward pass. In the forward pass calls store them.
        carried: `latest` of `TimestepNorm` by slot, in the backward pass `later`. Calls change it.

    Attributes:
        gradients: gradients of gamma and beta of each slot, from `backward`: (batch, width), or
            (1, width) for a batch norm.
    """

    def __init__(
        self,
        cell: Any,
        norms: Mapping[str, Any],
        weights: Tree,
        constants: Tree,
        statistics: dict[str, Tensors] | None = None,
        carried: Iterable[tuple[str, Tensors]] = (),
    ) -> None:
        self.cell, self.norms = cell, norms
        self.gamma, self.beta = weights["gamma"], weights["beta"]
        self.unmasked, self.moving = constants.get("unmasked"), constants.get("moving", {})
        self.is_backward = statistics is not None
        self.statistics: dict[str, Tensors] = statistics or {}
        self.gradients: dict[str, dict[str, Tensor]] = {}
        self.carried = dict(carried)

    def __call__(self, name: str, a: Tensor) -> Tensor:
        """Normalize `a` with the norm `name`, such as "kernel_norm", if the cell has this norm."""
        if name not in self.norms:
            self.cell.require_slot(name)
        return self.apply(name, a, self.beta.get(name))

    def apply(self, name: str, a: Tensor, bias: Tensor | None) -> Tensor:
        """Normalize `a` with the norm `name`, if this norm is not None; then add `bias`."""
        norm, gamma, y = self.norms.get(name), self.gamma.get(name), a
        if norm is not None:
            if not self.is_backward:
                moving = self.moving.get(name, [])
                if isinstance(norm, FusedNorm):
                    y, self.statistics[name] = norm.normalize(a, gamma, bias, moving)
                    return y
                latest = self.carried.get(name)
                if latest is not None:
                    moving = with_latest(moving, latest)
                statistics = norm.statistics(a, self.unmasked, moving)
                if not isinstance(statistics, list):
                    raise TypeError(WRONG_STATISTICS.format(type(norm).__name__, type(statistics)))
                self.statistics[name] = statistics
                if latest is not None:
                    self.carried[name] = norm.update_latest(latest, self.statistics[name])
            y = norm.apply(a, self.statistics[name], gamma)
        return y if bias is None else y + bias

    def backward(self, name: str, a: Tensor, dy: Tensor) -> Tensor:
        """Return the gradient of `a`, and store the gradients of gamma and beta.

        Raises:
            ValueError: a second call for the same norm.
        """
        norm = self.norms.get(name)
        if norm is None:
            return dy
        if name in self.gradients:
            raise ValueError(REPEATED.format(cell=self.cell.__name__, slot=name))
        of_slot = self.statistics[name], self.gamma.get(name), self.unmasked
        later = [self.carried[name]] if name in self.carried else []
        gradients = norm.backward(a, dy, *of_slot, *later)
        if not isinstance(gradients, tuple) or len(gradients) != 3:
            raise TypeError(WRONG_GRADIENTS.format(type(norm).__name__))
        da, d_gamma, d_beta = gradients
        if later:
            self.carried[name] = norm.sums_before(self.statistics[name], d_gamma, d_beta, *later)
        self.gradients[name] = {"gamma": d_gamma, "beta": d_beta}
        return da
