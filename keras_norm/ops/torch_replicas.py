"""Add up tensors over the ranks of a PyTorch process group."""

import re
from typing import Any

import keras
import torch
from torch import distributed

from keras_norm.keras_internals import called_layers
from keras_norm.typing import Tensor

LOST = (
    "Rank {rank} could not add up its batch statistics over the {ranks} ranks of the process "
    "group: {why}. {lost} has ended or stopped, or runs another number of batches or layers. "
    "Restart all ranks from a checkpoint."
)
LOCATION = re.compile(r"^\[[^]]*\] ?")
SENTENCE_END = re.compile(r"\.?\n|\. |\.$")


def count_replicas() -> int:
    """Return the number of ranks of the default process group; 1 if there is no group."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return int(distributed.get_world_size())


def is_in_loop() -> bool:
    """Return whether Keras calls this code once for each timestep.

    Ranks with other numbers of timesteps would wait for each other.
    """
    return any(_is_loop(layer) for layer in called_layers())


def sum_over_replicas(x: Tensor) -> Tensor:
    """Sum `x` over all ranks."""
    return _Sum.apply(x)


def max_over_replicas(time: int) -> int:
    """Return the largest number of timesteps of all ranks."""
    # Create the tensor on the device of Keras: an NCCL process group cannot reduce CPU tensors.
    x = keras.ops.convert_to_tensor(time, "int64")
    return int(_reduce(x, distributed.ReduceOp.MAX))


class _Sum(torch.autograd.Function):
    """The sum over all ranks; its gradient is the sum of the gradients over all ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the sum of `x` over all ranks."""
        return _reduce(x.clone(memory_format=torch.contiguous_format), distributed.ReduceOp.SUM)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        """Return the gradient of `x`: the sum of `dy` over all ranks."""
        return _Sum.apply(dy)


def _reduce(x: Tensor, operation: Any) -> Tensor:
    """Reduce `x` over all ranks, in place.

    Raises:
        RuntimeError: another rank has ended, or takes longer than the timeout of the group; or the
            group has no backend for the device of `x`.
    """
    try:
        distributed.all_reduce(x, operation)
    except RuntimeError as error:
        if "No backend type" in str(error):
            raise
        # Keep the first sentence of gloo's message, which has the address of the other rank.
        # Remove the source file and line before it.
        why = SENTENCE_END.split(LOCATION.sub("", str(error).strip()), maxsplit=1)[0]
        rank, ranks = distributed.get_rank(), distributed.get_world_size()
        lost = f"Rank {1 - rank}" if ranks == 2 else "A rank"
        raise RuntimeError(LOST.format(rank=rank, ranks=ranks, why=why, lost=lost)) from error
    return x


def _is_loop(layer: object) -> bool:
    """Return whether a layer calls other layers once for each timestep.

    The recurrences of Keras and of this package that have an `inner_loop` of their own call none.
    """
    if isinstance(layer, keras.layers.RNN):
        return type(layer).inner_loop is keras.layers.RNN.inner_loop
    return isinstance(layer, keras.layers.TimeDistributed)
