"""Measure the train/inference gap of small models."""

import keras
import numpy as np
from keras import ops

from keras_norm.export.checks.train_inference_gap import GapMeter
from tests.export import models

RNG = np.random.default_rng(0)
DATA = {"x": (3.0 + 2.0 * RNG.normal(size=(16, 5, 3))).astype("float32")}


def measure_gap(model, *batches, max_gap=None, labels=None):
    meter = GapMeter(model)
    for batch in batches:
        meter.add(batch, labels)
    return meter.judge(len(DATA["x"]), max_gap=max_gap)[0]


def model_of(*layers):
    keras.utils.set_random_seed(0)
    return models.stack(*layers)


def set_statistics(layer, mean, variance):
    layer.moving_mean.assign(ops.broadcast_to(ops.convert_to_tensor(mean), layer.moving_mean.shape))
    layer.moving_variance.assign(
        ops.broadcast_to(ops.convert_to_tensor(variance), layer.moving_variance.shape)
    )


def batch_statistics():
    flat = DATA["x"].reshape(-1, 3)
    return flat.mean(axis=0), flat.var(axis=0)
