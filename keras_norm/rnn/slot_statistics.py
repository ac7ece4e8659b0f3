"""Update the moving statistics of a cell's norms, on one device and in a distributed step."""

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import keras

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.ops.global_statistics import LOCAL_WARNING, BatchStatistics, global_statistics
from keras_norm.ops.replicas import count_replicas, local_statistics, require_equal_lengths
from keras_norm.rnn.slots import KERNEL_SLOTS


def update_slots(cell: keras.layers.Layer, statistics: Mapping[str, BatchStatistics]) -> None:
    """Update the moving statistics of a cell's norms after the loop over time.

    The statistics of all norms are added over the replicas in one operation.

    Args:
        cell: the cell.
        statistics: statistics of each timestep, by the name of the norm.
    """
    layers = cell.slot_layers()
    local = [slot for slot in statistics if not layers[slot].synchronized]
    batches = [statistics[slot] for slot in local]
    merged = global_statistics(batches, name=cell.name, per_timestep=True)
    for slot, batch in {**statistics, **dict(zip(local, merged, strict=True))}.items():
        layers[slot].update_steps(batch)


def require_synchronizable(layer: keras.layers.RNN, time: int) -> None:
    """Raise ValueError if norms with `synchronized=True` cannot sum statistics over the replicas.

    Args:
        layer: a recurrent layer in training.
        time: number of timesteps.

    Raises:
        ValueError: the backend is TensorFlow, or ranks have different numbers of timesteps.
    """
    if count_replicas() == 1 or not _has_synchronized_norm(layer.cell):
        return
    if keras.backend.backend() == "tensorflow":
        raise ValueError(
            f"{type(layer).__name__} '{layer.name}' has synchronized=True. On TensorFlow a loop "
            f"over time cannot sum over replicas. Received: {count_replicas()} replicas. Train "
            "with KERAS_BACKEND=jax, where all statistics are those of the global batch, or remove "
            "synchronized=True."
        )
    require_equal_lengths(layer.name, time)


def require_no_timestep_statistics(layer: keras.layers.RNN) -> None:
    """Raise ValueError for a norm with batch statistics per timestep: it does not support resets.

    Args:
        layer: a recurrent layer in training.

    Raises:
        ValueError: a norm has such statistics. With resets, the sequences of a batch are at
            different timesteps.
    """
    for slot, norm in layer.cell.slot_layers().items():
        if norm in _statistics_norms(layer.cell):
            if slot in KERNEL_SLOTS and not norm.per_timestep:
                # This norm has one mean over all sequences and timesteps. So the mean does not
                # depend on the timesteps at which `resets` begins a new sequence.
                continue
            raise ValueError(
                f"{type(layer).__name__} '{layer.name}' does not support resets in training "
                f"with {type(norm).__name__} in {slot}. This norm computes batch statistics at "
                "each timestep, but resets put the sequences of a batch at different timesteps. "
                "Pass a batch with one sequence per row and a mask, or use another norm."
            )


def statistics_of_cell(cell: keras.layers.Layer, training: bool) -> AbstractContextManager[None]:
    """Return a context manager: in it, a cell in keras.layers.RNN has statistics per replica.

    Raises:
        ValueError: a norm of the cell has `synchronized=True`, and there are several replicas.
    """
    if not training or count_replicas() == 1 or not _statistics_norms(cell):
        return nullcontext()
    if _has_synchronized_norm(cell):
        raise ValueError(
            f"{type(cell).__name__} '{cell.name}' has synchronized=True, which a cell in "
            f"keras.layers.RNN does not support. Received: {count_replicas()} replicas. Use a "
            "layer such as BatchNormLSTM."
        )
    warnings.warn(LOCAL_WARNING.format(name=cell.name), stacklevel=2)
    return local_statistics()


def _statistics_norms(cell: keras.layers.Layer) -> list[StatisticsNormalization]:
    norms = cell.slot_layers().values()
    return [n for n in norms if isinstance(n, StatisticsNormalization) and n.trainable]


def _has_synchronized_norm(cell: keras.layers.Layer) -> bool:
    return any(norm.synchronized for norm in _statistics_norms(cell))
