"""Add up tensors over the ranks of a PyTorch process group."""

import re
from typing import Any

import torch
from torch import distributed

from keras_norm.typing import Tensor

LOST = (
    "The batch statistics could not be added up over the {ranks} ranks of the process group: "
    "{why}. A rank has ended or stopped, or runs another number of batches or layers. Restart all "
    "ranks from a checkpoint."
)
LOCATION = re.compile(r"^\[[^]]*\] ?")


def count_replicas() -> int:
    """Return the number of ranks of the default process group; 1 if there is no group."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return int(distributed.get_world_size())


def sum_over_replicas(x: Tensor) -> Tensor:
    """Sum `x` over all ranks."""
    return _Sum.apply(x)


def longest(time: int) -> int:
    """Return the largest number of timesteps of all ranks."""
    return int(_reduce(torch.tensor(time), distributed.ReduceOp.MAX))


class _Sum(torch.autograd.Function):
    """The sum over all ranks; its gradient is the sum of the gradients over all ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the sum."""
        return _reduce(x.clone(memory_format=torch.contiguous_format), distributed.ReduceOp.SUM)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        """Return the gradient of `x`."""
        return _Sum.apply(dy)


def _reduce(x: Tensor, operation: Any) -> Tensor:
    """Reduce `x` in place.

    Raises:
        RuntimeError: another rank has ended, or takes longer than the timeout of the group.
    """
    try:
        distributed.all_reduce(x, operation)
    except RuntimeError as error:
        # Keep the first line, without the place in the source of gloo.
        why = LOCATION.sub("", str(error).strip().partition("\n")[0]).rstrip(".")
        ranks = distributed.get_world_size()
        raise RuntimeError(LOST.format(ranks=ranks, why=why)) from error
    return x
