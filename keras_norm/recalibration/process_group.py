"""Exchange bytes between the processes of a JAX, PyTorch or TensorFlow process group."""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np

from keras_norm.keras_internals import reason
from keras_norm.typing import Array, Tensor


@contextlib.contextmanager
def without_distribution() -> Iterator[None]:
    """Let models run on the devices of this process only, inside a `with` block.

    With `keras.distribution` on JAX, a new variable is an array of all processes.
    """
    distribution = keras.distribution.distribution()
    if distribution is None:
        yield
        return
    keras.distribution.set_distribution(None)
    try:
        yield
    finally:
        keras.distribution.set_distribution(distribution)


def require_whole_weights(model: keras.Model) -> None:
    """Check that this process has all values of every weight.

    Raises:
        ValueError: a weight is spread over several processes, as with `ModelParallel` on JAX.
    """
    for weight in model.weights:
        value = weight.value
        is_whole = getattr(value, "is_fully_replicated", True)
        if not (is_whole or value.is_fully_addressable):
            raise ValueError(
                f"The weight {weight.path!r} is spread over several processes. Save the model, "
                "and recalibrate the loaded model without keras.distribution."
            )


def gather_bytes(model: keras.Model, own: bytes) -> list[bytes]:
    """Send bytes to all processes, and return a list of the bytes of process 0, 1 and so on.

    Every process of the group must call this function.

    Args:
        model: on TensorFlow, its variables belong to the strategy of the processes.
        own: the bytes of this process.

    Raises:
        RuntimeError: a process has ended, or sends nothing before the timeout of the group.
    """
    backend = keras.backend.backend()
    try:
        if backend == "jax":
            return _gather_with_jax(own)
        if backend == "torch":
            return _gather_with_torch(own)
        if backend == "tensorflow":
            return _gather_with_tensorflow(model, own)
    except Exception as error:
        # JAX, gloo and TensorFlow raise errors of different classes.
        why = next(iter(reason(error).splitlines()), type(error).__name__).rstrip(".")
        raise RuntimeError(
            "The processes of the group could not exchange statistics: a process has ended, or did "
            f"not call recalibrate: {why}. Restart all processes. The model was not changed."
        ) from error
    return [own]


def _gather_with_jax(own: bytes) -> list[bytes]:
    import jax

    if jax.process_count() == 1:
        return [own]
    from jax.experimental.multihost_utils import process_allgather

    sizes = np.ravel(process_allgather(np.array([len(own)], "int32")))
    return _split(process_allgather(_pad(own, max(sizes))), sizes)


def _gather_with_torch(own: bytes) -> list[bytes]:
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return [own]
    gathered = [own] * distributed.get_world_size()
    distributed.all_gather_object(gathered, own)
    return gathered


def _gather_with_tensorflow(model: keras.Model, own: bytes) -> list[bytes]:
    import tensorflow as tf

    weights = getattr(model, "weights", None)
    if weights:
        strategy = getattr(weights[0].value, "distribute_strategy", None)
    else:
        # This `model` is not built, or is no model. `recalibrate` reports this error later.
        strategy = getattr(model, "distribute_strategy", None)
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return [own]

    def gather(values: Tensor) -> Tensor:
        # A process with several GPUs has a replica on each GPU. Each replica sends the array of its
        # process.
        return strategy.gather(strategy.run(tf.identity, (values,)), axis=0)

    compiled = tf.function(gather, autograph=False, reduce_retracing=True)

    def gather_array(array: Array) -> Array:
        gathered: Array = np.asarray(compiled(tf.constant(array[None])))
        return gathered

    cluster = strategy.cluster_resolver
    workers = max(len(tf.nest.flatten(cluster.cluster_spec().as_dict())), 1)
    replicas = strategy.num_replicas_in_sync // workers
    sizes = gather_array(np.array([len(own)], "int32"))[::replicas, 0]
    return _split(gather_array(_pad(own, max(sizes)).astype("int32"))[::replicas], sizes)


def _pad(own: bytes, size: int) -> Array:
    """Return bytes as an array of the given size, with zeros at the end."""
    return np.frombuffer(own.ljust(size, b"\0"), "uint8")


def _split(rows: Array, sizes: Array) -> list[bytes]:
    """Return the bytes of each row without the zeros at its end."""
    return [row[:size].astype("uint8").tobytes() for row, size in zip(rows, sizes, strict=True)]
