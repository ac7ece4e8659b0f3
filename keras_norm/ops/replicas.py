"""Add up tensors of all replicas of a distributed training step.

A replica computes a part of the global batch: a device of a TensorFlow strategy, or a process of a
PyTorch process group. On JAX every array is the global array, so the step has one replica.
"""

import contextlib
import contextvars
import importlib
from collections.abc import Iterator
from types import ModuleType

import keras
from keras import ops

from keras_norm.typing import Tensor

ADAPTERS = ("tensorflow", "torch")

_is_local: contextvars.ContextVar[bool] = contextvars.ContextVar("is_local", default=False)
_is_collected: contextvars.ContextVar[bool] = contextvars.ContextVar("is_collected", default=False)


@contextlib.contextmanager
def local_statistics(*, collected: bool = False) -> Iterator[None]:
    """Inside a `with` block, let each replica compute statistics of its own batch only.

    Args:
        collected: whether the statistics of the batch are merged with those of other batches later,
            as in `keras_norm.recalibration`. Then the count of a timestep may be 1.
    """
    tokens = _is_local.set(True), _is_collected.set(collected)
    try:
        yield
    finally:
        _is_local.reset(tokens[0])
        _is_collected.reset(tokens[1])


def count_replicas() -> int:
    """Return the number of replicas of this step: 1 on one device and inside `local_statistics`."""
    if _is_local.get() or keras.backend.backend() not in ADAPTERS:
        return 1
    count: int = _adapter().count_replicas()
    return count


def is_part_of_batch() -> bool:
    """Return whether this batch's statistics are merged with those of other replicas or batches."""
    return _is_collected.get() or count_replicas() > 1


def is_in_loop() -> bool:
    """Return whether this code is in a loop over time, in which replicas cannot sum tensors.

    In a TensorFlow graph, they cannot in a conditional or a nested function either. On PyTorch,
    keras.layers.RNN and keras.layers.TimeDistributed are loops.
    """
    return keras.backend.backend() in ADAPTERS and bool(_adapter().is_in_loop())


def sum_over_replicas(*tensors: Tensor) -> list[Tensor]:
    """Sum each tensor over all replicas, in one operation; with one replica, return the tensors.

    The gradient of a sum is the sum of the gradients over all replicas.

    Args:
        *tensors: floating tensors of one dtype, each with equal shapes on all replicas.
    """
    if count_replicas() == 1:
        return list(tensors)
    flat = [ops.reshape(x, (-1,)) for x in tensors]
    sizes = [ops.size(x) for x in flat]
    total = _adapter().sum_over_replicas(flat[0] if len(flat) == 1 else ops.concatenate(flat))
    sums, start = [], 0
    for x, size in zip(tensors, sizes, strict=True):
        sums.append(ops.reshape(total[start : start + size], ops.shape(x)))
        start += size
    return sums


def all_reduce(x: Tensor) -> Tensor:
    """Add up one tensor over all replicas."""
    return sum_over_replicas(x)[0]


def max_over_replicas(time: int | Tensor) -> int | Tensor:
    """Return the largest value of `time`, a number of timesteps, over all replicas."""
    return time if count_replicas() == 1 else _adapter().max_over_replicas(time)


def synchronizes(name: str) -> bool:
    """Return whether a layer with `synchronized=True` adds up its statistics over replicas.

    Args:
        name: name of the layer.

    Raises:
        ValueError: there are several replicas, and the layer is called in a loop.
    """
    if count_replicas() == 1:
        return False
    if is_in_loop():
        raise ValueError(
            f"Layer {name!r} has synchronized=True, which is not supported inside a loop (such as "
            "keras.layers.RNN), a conditional or a tf.function. Received: "
            f"{count_replicas()} replicas. Use a layer such as BatchNormLSTM, or remove "
            "synchronized=True."
        )
    return True


def require_equal_lengths(name: str, time: int) -> None:
    """Raise ValueError unless all ranks of a PyTorch process group have equally many timesteps.

    A collective at each timestep would else wait for the timesteps of shorter sequences.

    Args:
        name: name of the layer.
        time: number of timesteps of this rank.

    Raises:
        ValueError: the ranks have different numbers of timesteps; on every rank.
    """
    if count_replicas() == 1 or keras.backend.backend() != "torch":
        return
    low, high = -max_over_replicas(-time), max_over_replicas(time)
    if low != high:
        raise ValueError(
            f"Layer {name!r} has synchronized=True, so all ranks need equally many timesteps. "
            f"Received: {time} timesteps, and {low} to {high} on all ranks. Pad the sequences of "
            "all ranks to one length."
        )


def _adapter() -> ModuleType:
    return importlib.import_module(f"keras_norm.ops.{keras.backend.backend()}_replicas")
