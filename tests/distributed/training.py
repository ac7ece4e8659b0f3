"""A program that trains small models with norms, for `processes.run` and for one device.

`train` trains every model of `MODELS` on a few batches. It returns all weights after each batch,
{"NAME/BATCH/PATH": (copies of this process, ...)}. Process 0 writes NAME.keras. A group also
evaluates the models of `EVALUATED` on 8 rows, {"loss/BATCH/NAME": mean squared error}.
"""

import functools
import re
from typing import Any

import keras
import numpy as np
import pytest

import keras_norm
from tests.distributed import loops
from tests.distributed.child import Place

FEATURES, UNITS, TIMESTEPS = 3, 4, 4  # the sequences are longer than TIMESTEPS

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


def train(place: Place, x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> dict[str, Any]:
    """Train all models in a group of processes or on logical devices, or on one device.

    A TensorFlow process compiles no recurrence, because that would take most of its time.
    """
    if place.strategy:
        from tests import without_xla

        without_xla.trace(pytest.MonkeyPatch())
    x, y = x.astype("float32"), y.astype("float32")
    found: dict[str, Any] = {}
    in_recurrence = ("synchronized lstm", "synchronized gru")  # not possible on TensorFlow
    for name in MODELS:
        if place.strategy and place.count > 1 and name in in_recurrence:
            continue
        cut = not is_synchronized(name)
        steps = loops.train(place, functools.partial(build, name), x, y, sizes, cut=cut)
        for k, (model, weights) in enumerate(steps):
            for path, value in weights.items():
                # Remove the numbers of layers, such as "batch_normalization_2/moving_mean".
                found[f"{name}/{k}/" + re.sub(r"_\d+", "", path)] = value
            if place.rank == 0:
                model.save(place.folder / f"{name}.keras")
        if place.count > 1 and name in EVALUATED:
            loss = EVALUATE[place.kind](place, model, x[:8], y[:8])
            found[f"loss/{k}/{name}"] = np.reshape(loss, 1)
    return found


# Mean squared error of all rows, in inference mode ------------------------------------------------


def evaluate_mirrored(place, model, x, y):
    with place.strategy.scope():
        model.compile(loss="mse")
    return model.evaluate(x, y, batch_size=4, verbose=0)


def evaluate_multiworker(place, model, x, y):
    x, y = place.shard(x), place.shard(y)

    def loss():
        return keras.ops.sum((model(x, training=False) - y) ** 2)

    total = place.strategy.reduce("SUM", place.strategy.run(loss), axis=None)
    return total / (place.count * len(x))


def evaluate_jax(place, model, x, y):
    with keras.distribution.DataParallel(auto_shard_dataset=False).scope():
        return model.evaluate(place.shard(x), place.shard(y), batch_size=2, verbose=0)


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
