"""Train a model with SGD in a group of processes or on logical devices, or on one device.

    for model, weights in train(place, build, x, y, sizes):
        ...  # after each batch: weights is {path: (copies of this process, ...)}

The loss of a batch is the mean squared error over the rows of all replicas. On JAX, `fit` trains
with Keras' distribution, by default with `DataParallel`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from tests.distributed.child import Place

RATE = 0.05


def train(
    place: Place,
    build: Callable[[], keras.Model],
    x: np.ndarray,
    y: np.ndarray,
    sizes: Sequence[int] | np.ndarray,
    *,
    cut: bool = False,
) -> Iterator[tuple[keras.Model, dict[str, np.ndarray]]]:
    """Train on batches of `sizes` rows; yield the model and copies of its weights after each.

    With `cut` each replica cuts its rows to its own longest sequence, except on JAX.
    """
    loops = {"tensorflow": train_on_tensorflow, "jax": train_on_jax, "torch": train_on_torch}
    return loops[keras.backend.backend()](place, build, x, y, sizes, cut=cut)


def split(x: np.ndarray, y: np.ndarray, sizes: np.ndarray, parts: int, *, cut: bool) -> list[Any]:
    """Split rows into batches, and each batch into the parts of the replicas.

    With `cut` each part is cut to its own longest sequence. A part may have no rows.
    """
    batches = []
    for batch in np.split(np.arange(len(x)), np.cumsum(sizes)[:-1]):
        rows = np.array_split(batch, parts)
        lengths = [max([1, *(np.abs(x[r]).sum(-1) > 0).sum(-1)]) for r in rows]
        lengths = lengths if cut else [x.shape[1]] * parts
        batches.append([(x[r, :n], y[r]) for r, n in zip(rows, lengths, strict=True)])
    return batches


def train_on_tensorflow(place, build, x, y, sizes, *, cut):
    import tensorflow as tf

    strategy = place.strategy or tf.distribute.get_strategy()
    batches = split(x, y, sizes, place.count, cut=cut)
    own = slice(place.rank, place.rank + 1) if place.kind == "multiworker" else slice(None)
    parts = [part for batch in batches for part in batch[own]]
    shapes = (None, None, x.shape[-1]), (None, *y.shape[1:])
    signature = tuple(tf.TensorSpec(shape, "float32") for shape in shapes)
    data = tf.data.Dataset.from_generator(lambda: iter(parts), output_signature=signature)
    data = iter(strategy.distribute_datasets_from_function(lambda _: data))
    with strategy.scope():
        model = build()
        optimizer = keras.optimizers.SGD(RATE)
        optimizer.build(model.trainable_variables)

    def step(x, y, size):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(x, training=True) - y) ** 2) / size
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)

    run = tf.function(
        lambda x, y, size: strategy.run(step, (x, y, size)),
        input_signature=[*data.element_spec, tf.TensorSpec((), "float32")],
    )
    for size in sizes:
        run(*next(data), tf.constant(size, "float32"))
        copies = {w.path: strategy.experimental_local_results(w.value) for w in model.weights}
        yield model, {path: np.stack([c.numpy() for c in found]) for path, found in copies.items()}


def train_on_torch(place, build, x, y, sizes, *, cut):
    import torch

    model = build()
    weights = [w.value for w in model.trainable_variables]
    batches = split(x, y, sizes, place.count, cut=cut)
    for size, parts in zip(sizes, batches, strict=True):
        inputs, targets = map(torch.tensor, parts[place.rank])
        loss = ((model(inputs, training=True) - targets) ** 2).sum() / size
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            if place.count > 1:
                torch.distributed.all_reduce(gradient)
            with torch.no_grad():
                weight -= RATE * gradient
        yield model, {w.path: keras.ops.convert_to_numpy(w)[None] for w in model.weights}


def train_on_jax(place, build, x, y, sizes, *, cut):
    distribution = keras.distribution.distribution()
    distribution = distribution or keras.distribution.DataParallel(auto_shard_dataset=False)
    with distribution.scope():
        model = build()
        model.compile(keras.optimizers.SGD(RATE), "mse")
    for batch in np.split(np.arange(len(x)), np.cumsum(sizes)[:-1]):
        rows = place.shard(batch)
        with distribution.scope():  # not while process 0 saves the model
            model.fit(x[rows], y[rows], batch_size=len(rows), shuffle=False, verbose=0)
        yield model, {w.path: keras.ops.convert_to_numpy(w)[None] for w in model.weights}
