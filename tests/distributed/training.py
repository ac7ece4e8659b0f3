"""A program that trains small models with norms, for `processes.run` and for one device.

`train` trains every model of `MODELS` on a few batches with SGD. It returns all weights after each
batch, {"NAME/BATCH/PATH": (copies of this process, ...)}. Process 0 writes NAME.keras. A replica
takes its rows of each batch, cut to its own longest sequence. A group also evaluates the models of
`EVALUATED` on 16 rows, {"loss/BATCH/NAME": mean squared error}.
"""

import re
from typing import Any

import keras
import numpy as np

import keras_norm
from tests.distributed.child import Place

FEATURES, UNITS, TIMESTEPS = 3, 4, 4  # the sequences are longer than TIMESTEPS
RATE = 0.05

BatchNorm, TimestepNorm = keras_norm.BatchNormalization, keras_norm.TimestepBatchNormalization
MODELS = {
    "layer": lambda: keras_norm.LayerNormLSTM(UNITS),
    "batch": lambda: BatchNorm(momentum=None, unbiased_variance=True, dtype="mixed_bfloat16"),
    "ghosts": lambda: BatchNorm(virtual_batch_size=2),
    "renorm": lambda: BatchNorm(renorm=True),
    "timestep": lambda: TimestepNorm(TIMESTEPS),
    "lstm": lambda: keras_norm.BatchNormLSTM(UNITS, TIMESTEPS),
    "loop": lambda: keras_norm.BatchNormLSTM(UNITS, TIMESTEPS, compiled=False),
    "gru": lambda: keras_norm.NormGRU(UNITS, BatchNorm()),
    "synchronized batch": lambda: BatchNorm(synchronized=True),
    "synchronized timestep": lambda: TimestepNorm(TIMESTEPS, synchronized=True),
    "synchronized lstm": lambda: keras_norm.BatchNormLSTM(UNITS, TIMESTEPS, synchronized=True),
    "synchronized gru": lambda: keras_norm.NormGRU(UNITS, BatchNorm(synchronized=True)),
}

EVALUATED = ("timestep", "lstm", "gru")


def is_synchronized(name: str) -> bool:
    """Return whether the replicas normalize with the statistics of the global batch."""
    return name.startswith("synchronized")


def build(name: str) -> keras.Model:
    """Build a model with the same random weights on every backend."""
    keras.utils.set_random_seed(0)
    layer = MODELS[name]()
    # The gradient of the first Dense flows through the statistics.
    first = [keras.layers.Dense(FEATURES)] if is_synchronized(name) else []
    pool = [] if isinstance(layer, keras.layers.RNN) else [keras.layers.GlobalAveragePooling1D()]
    layers = [keras.layers.Masking(), *first, layer, *pool, keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((None, FEATURES)), *layers])
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(0.0, 0.5, weight.shape))
    return model


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


def train(place: Place, x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> dict[str, Any]:
    """Train all models in a group of processes or on logical devices, or on one device."""
    x, y = x.astype("float32"), y.astype("float32")
    loops = {"tensorflow": with_tensorflow, "jax": with_jax, "torch": with_torch}
    loop = loops[keras.backend.backend()]
    found: dict[str, Any] = {}
    in_recurrence = ("synchronized lstm", "synchronized gru")  # not possible on TensorFlow
    for name in MODELS:
        if place.strategy and place.count > 1 and name in in_recurrence:
            continue
        for k, (model, weights) in enumerate(loop(place, name, x, y, sizes)):
            for path, value in weights.items():
                # Remove the numbers of layers, such as "batch_normalization_2/moving_mean".
                found[f"{name}/{k}/" + re.sub(r"_\d+", "", path)] = value
            if place.rank == 0:
                model.save(place.folder / f"{name}.keras")
        if place.count > 1 and name in EVALUATED:
            loss = EVALUATE[place.kind](place, model, x[:16], y[:16])
            found[f"loss/{k}/{name}"] = np.reshape(loss, 1)
    return found


def with_tensorflow(place, name, x, y, sizes):
    import tensorflow as tf

    strategy = place.strategy or tf.distribute.get_strategy()
    batches = split(x, y, sizes, place.count, cut=not is_synchronized(name))
    own = slice(place.rank, place.rank + 1) if place.kind == "multiworker" else slice(None)
    parts = [part for batch in batches for part in batch[own]]
    shapes = (None, None, FEATURES), (None, 1)
    signature = tuple(tf.TensorSpec(shape, "float32") for shape in shapes)
    data = tf.data.Dataset.from_generator(lambda: iter(parts), output_signature=signature)
    data = iter(strategy.distribute_datasets_from_function(lambda _: data))
    with strategy.scope():
        model = build(name)
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


def with_torch(place, name, x, y, sizes):
    import torch

    model = build(name)
    weights = [w.value for w in model.trainable_variables]
    batches = split(x, y, sizes, place.count, cut=not is_synchronized(name))
    for size, parts in zip(sizes, batches, strict=True):
        inputs, targets = map(torch.tensor, parts[place.rank])
        loss = ((model(inputs, training=True) - targets) ** 2).sum() / size
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            if place.count > 1:
                torch.distributed.all_reduce(gradient)
            with torch.no_grad():
                weight -= RATE * gradient
        yield model, {w.path: keras.ops.convert_to_numpy(w)[None] for w in model.weights}


def with_jax(place, name, x, y, sizes):
    distribution = keras.distribution.DataParallel(auto_shard_dataset=False)
    with distribution.scope():
        model = build(name)
        model.compile(keras.optimizers.SGD(RATE), "mse")
    for batch in np.split(np.arange(len(x)), np.cumsum(sizes)[:-1]):
        rows = place.shard(batch)
        with distribution.scope():  # not while process 0 saves the model
            model.fit(x[rows], y[rows], batch_size=len(rows), shuffle=False, verbose=0)
        yield model, {w.path: keras.ops.convert_to_numpy(w)[None] for w in model.weights}


# Mean squared error of all rows, in inference mode ------------------------------------------------


def evaluate_mirrored(place, model, x, y):
    with place.strategy.scope():
        model.compile(loss="mse")
    return model.evaluate(x, y, batch_size=8, verbose=0)


def evaluate_multiworker(place, model, x, y):
    x, y = place.shard(x), place.shard(y)

    def loss():
        return keras.ops.sum((model(x, training=False) - y) ** 2)

    total = place.strategy.reduce("SUM", place.strategy.run(loss), axis=None)
    return total / (place.count * len(x))


def evaluate_jax(place, model, x, y):
    with keras.distribution.DataParallel(auto_shard_dataset=False).scope():
        return model.evaluate(place.shard(x), place.shard(y), batch_size=4, verbose=0)


def evaluate_torch(place, model, x, y):
    import torch

    x, y = map(torch.tensor, (place.shard(x), place.shard(y)))
    with torch.no_grad():
        total = ((model(x, training=False) - y) ** 2).sum()
    torch.distributed.all_reduce(total)
    return total / (place.count * len(x))


EVALUATE = {
    "mirrored": evaluate_mirrored,
    "multiworker": evaluate_multiworker,
    "jax": evaluate_jax,
    "torch": evaluate_torch,
}
