"""Measure one pass of `recalibrate` and one pass per layer on a stack of batch norms.

    python -m benchmarks.stacked_norms

After exact statistics, each unit of the last batch norm has mean 0 and variance 1 on the data, in
inference mode. The weights are random.
"""

from typing import NamedTuple

import keras
import numpy as np

import keras_norm

DEPTH, UNITS, FEATURES, ROWS, SEEDS = 8, 64, 32, 16_384, 3


class Distances(NamedTuple):
    """Largest distances of any unit from mean 0 and variance 1, averaged over seeds."""

    mean: float
    variance: float


def measure(batch_size: int, *, layer_by_layer: bool, rows: int = ROWS) -> Distances:
    """Recalibrate stacks of (Dense, ReLU, BatchNorm) and measure their outputs at inference."""
    found = []
    for seed in range(SEEDS):
        keras.utils.set_random_seed(seed)
        x = np.random.default_rng(seed).standard_t(5, (rows, FEATURES)).astype("float32")
        model = keras.Sequential([keras.Input((FEATURES,))])
        for _ in range(DEPTH):
            model.add(keras.layers.Dense(UNITS, "relu"))
            model.add(keras_norm.BatchNormalization())
        keras_norm.recalibrate(model, x, batch_size=batch_size, layer_by_layer=layer_by_layer)
        y = model.predict(x, batch_size=1024, verbose=0).astype("float64")
        found.append([np.abs(y.mean(axis=0)).max(), np.abs(y.var(axis=0) - 1.0).max()])
    return Distances(*map(float, np.mean(found, axis=0)))


def main() -> None:
    """Print a table of the distances."""
    print("| batch | passes | mean | variance |\n|---|---|---|---|")
    for batch_size in (32, 1024):
        for layer_by_layer in (False, True):
            distances = measure(batch_size, layer_by_layer=layer_by_layer)
            cells = " | ".join(f"{distance:.2g}" for distance in distances)
            print(f"| {batch_size:,} | {DEPTH if layer_by_layer else 1} | {cells} |")


if __name__ == "__main__":
    main()
