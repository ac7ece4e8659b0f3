"""Norms of a recurrence as single operations of PyTorch."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch

from keras_norm.ops.enough_sequences import MIN_SEQUENCES
from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.ops.timestep_norm import TimestepNorm
from keras_norm.rnn.core.recurrence import FusedNorm, Norm, Recurrence, Slot, Tree
from keras_norm.typing import Tensor, Tensors


def fuse_norms(recurrence: Recurrence, batch: int, *, masked: bool) -> Recurrence:
    """Replace norms by fused operations of PyTorch, such as `torch.native_layer_norm`.

    PyTorch has an operation for LayerNorm with default options, and for batch norm without a mask
    and without sums over ranks.

    Args:
        recurrence: the recurrence.
        batch: number of sequences.
        masked: whether the sequences have a mask.
    """

    def fuse(slot: Slot) -> Norm | None:
        norm = slot.norm
        if isinstance(norm, SampleNorm) and norm == SampleNorm(True, norm.epsilon):
            return FusedLayerNorm(norm.epsilon)
        if isinstance(norm, TimestepNorm) and norm.learning and not (masked or norm.synchronized):
            return FusedTimestepNorm(norm.epsilon) if batch >= MIN_SEQUENCES else norm
        return norm

    return _replace_norms(recurrence, fuse)


def fold_gamma(recurrence: Recurrence, weights: Tree, constants: Tree) -> tuple[Recurrence, Tree]:
    """Multiply r = 1 / sqrt(moving variance + epsilon) by gamma, for all timesteps at once.

    Returns:
        The recurrence with the norms `ScaledNorm`, and constants with [mean, r * gamma] of each
        slot in place of its moving mean and r.
    """
    moving: dict[str, Tensors] = {**constants["moving"]}

    def fold(slot: Slot) -> Norm | None:
        if not isinstance(slot.norm, TimestepNorm) or slot.norm.learning:
            return slot.norm
        mean, r = moving[slot.name]
        gamma = weights["gamma"].get(slot.name)
        moving[slot.name] = [mean, r if gamma is None else r * gamma]
        return ScaledNorm()

    return _replace_norms(recurrence, fold), {**constants, "moving": moving}


def _replace_norms(recurrence: Recurrence, norm_of: Callable[[Slot], Norm | None]) -> Recurrence:
    def replace(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        return tuple(slot._replace(norm=norm_of(slot)) for slot in slots)

    return recurrence._replace(
        kernel=replace(recurrence.kernel),
        recurrent=replace(recurrence.recurrent),
        inner=replace(recurrence.inner),
        joint=replace(recurrence.joint),
    )


@dataclasses.dataclass(frozen=True)
class FusedLayerNorm(FusedNorm):
    """LayerNorm of each sample as one operation of PyTorch; see `SampleNorm`.

    The statistics are [mean, r], each (..., 1). The gradients of gamma and beta are sums
    over the whole batch, (features,).
    """

    epsilon: float

    per_batch: ClassVar = True

    def normalize(
        self, a: Tensor, gamma: Tensor | None, beta: Tensor | None, moving: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensors]:
        """Return the normalized `a` times gamma plus beta, and the statistics of `a`."""
        y, mean, r = torch.native_layer_norm(a, a.shape[-1:], gamma, beta, self.epsilon)
        return y, [mean, r]

    def apply(self, a: Tensor, statistics: Tensors, gamma: Tensor | None) -> Tensor:
        """Normalize `a`, and multiply by gamma; the statistics are unused."""
        return self.normalize(a, gamma, None)[0]

    def backward(
        self,
        a: Tensor,
        dy: Tensor,
        statistics: Tensors,
        gamma: Tensor | None,
        unmasked: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of `a`, gamma and beta; `dy` is zero at masked sequences."""
        if gamma is None:
            gamma = torch.ones(a.shape[-1:], dtype=a.dtype, device=a.device)
        # Pass `gamma` in place of beta too: PyTorch does not read the values of beta.
        gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_layer_norm_backward(
            dy, a, a.shape[-1:], *statistics, gamma, gamma, (True, True, True)
        )
        return gradients


@dataclasses.dataclass(frozen=True)
class FusedTimestepNorm(FusedNorm):
    """Batch normalization of a timestep in training, without a mask; see `TimestepNorm`.

    The statistics are [mean, r], each (features,).
    """

    epsilon: float

    learning: ClassVar = True
    per_batch: ClassVar = True

    def normalize(
        self, a: Tensor, gamma: Tensor | None, beta: Tensor | None, moving: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensors]:
        """Return the normalized `a` times gamma plus beta, and the statistics of `a`."""
        y, mean, r = torch.native_batch_norm(a, gamma, beta, None, None, True, 0.0, self.epsilon)
        return y, [mean, r]

    def apply(self, a: Tensor, statistics: Tensors, gamma: Tensor | None) -> Tensor:
        """Normalize `a` with its statistics, and multiply by gamma."""
        mean, r = statistics
        return (a - mean) * (r if gamma is None else r * gamma)

    def moments(self, statistics: Tensors) -> Tensors:
        """Return the batch mean and variance of each timestep, (time, 1, features)."""
        mean, r = (s[:, None] for s in statistics)
        return [mean, torch.clamp(r**-2 - self.epsilon, min=0.0)]

    def backward(
        self,
        a: Tensor,
        dy: Tensor,
        statistics: Tensors,
        gamma: Tensor | None,
        unmasked: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of `a`, gamma and beta."""
        gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
            dy, a, gamma, None, None, *statistics, True, self.epsilon, (True, True, True)
        )
        return gradients


class ScaledNorm(FusedNorm):
    """Batch normalization with a moving mean and a scale; see `fold_gamma`.

    ::

        y = (a - mean) * scale + beta

    A shift beta - mean * scale would save an operation, and lose the digits of a large mean. The
    norm has no statistics.
    """

    per_batch: ClassVar = True

    def normalize(
        self, a: Tensor, gamma: Tensor | None, beta: Tensor | None, moving: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensors]:
        """Return (a - mean) * scale + beta, with mean and scale from `moving`; gamma is unused."""
        mean, scale = moving
        centered = a - mean
        y = centered * scale if beta is None else torch.addcmul(beta, centered, scale)
        return y, []
