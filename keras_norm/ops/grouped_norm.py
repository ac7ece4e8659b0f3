"""Normalize several groups of features, each with its own mean and variance, at once."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from keras import ops

from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.typing import Tensor, Tensors


@dataclasses.dataclass(frozen=True)
class GroupedNorm:
    """Apply LayerNorm or RMSNorm to each of several groups of n features, without a loop.

    ::

        y = gamma * [norm(a_1), ..., norm(a_groups)] + beta        a = [a_1, ..., a_groups]

    The tensors are (..., groups * n), and the statistics (..., groups, 1).

    Args:
        norm: the norm of each group.
        groups: number of groups.
    """

    norm: SampleNorm
    groups: int

    per_batch: ClassVar = False

    def statistics(
        self, a: Tensor, unmasked: Tensor | None = None, moving: Sequence[Tensor] = ()
    ) -> Tensors:
        """Compute the statistics of each group of features; ignore `unmasked` and `moving`."""
        return self.norm.statistics(self._divide(a))

    def apply(self, a: Tensor, statistics: Tensors, gamma: Tensor | None) -> Tensor:
        """Normalize `a` with its statistics, and multiply by gamma."""
        y = _join(self.norm.apply(self._divide(a), statistics, None))
        return y if gamma is None else y * gamma

    def backward(
        self,
        a: Tensor,
        dy: Tensor,
        statistics: Tensors,
        gamma: Tensor | None,
        unmasked: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradient of `a`, and for each sample the gradients of gamma and beta."""
        divided = None if gamma is None else self._divide(gamma)
        da, d_gamma, _ = self.norm.backward(self._divide(a), self._divide(dy), statistics, divided)
        return _join(da), _join(d_gamma), dy

    def _divide(self, a: Tensor) -> Tensor:
        return ops.reshape(a, (*ops.shape(a)[:-1], self.groups, a.shape[-1] // self.groups))


def _join(a: Tensor) -> Tensor:
    return ops.reshape(a, (*ops.shape(a)[:-2], a.shape[-2] * a.shape[-1]))


def group_norms(norms: Sequence[object], gammas: Sequence[Tensor | None]) -> GroupedNorm | None:
    """Combine the norms of all groups to one `GroupedNorm`; return None if the norms differ.

    The groups need the same `SampleNorm`, and a gamma in every group or in none.
    """
    first, *others = norms or [None]
    if not (isinstance(first, SampleNorm) and others and all(norm == first for norm in others)):
        return None
    has_gamma = {gamma is not None for gamma in gammas}
    return GroupedNorm(first, len(norms)) if len(has_gamma) == 1 else None
