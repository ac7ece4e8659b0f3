"""Measure how far the statistics of a sample are from those of a million sequences.

    python -m benchmarks.sample_size [--sequences 1000000]

The unit of the standard errors is the sequence, because the timesteps of a sequence are correlated.
A sample of n of N sequences has the errors

    mean: deviation / sqrt(n) * f        variance: variance * sqrt((kurtosis - 1) / n) * f

with f = sqrt((1 - n / N) e), where e is 1 for the statistics of one timestep. For the statistics of
T timesteps, e = (1 + (T - 1) r) / T with the mean correlation r of two timesteps: of their values
for the mean, and of their squared deviations for the variance.
"""

import argparse
from typing import NamedTuple

import keras
import numpy as np

import keras_norm
from keras_norm.recalibration.statistics_collector import StatisticsCollector
from keras_norm.typing import Array

TIME, FEATURES, REPEATS, BATCH = 20, 4, 20, 1024


class Errors(NamedTuple):
    """Root mean squares of the errors of a sample of sequences, measured and from the formula.

    The errors of the mean are relative to the standard deviation.
    """

    layer: str
    sequences: int
    mean: float
    expected_mean: float
    variance: float
    expected_variance: float


def draw_sequences(sequences: int, seed: int = 0) -> Array:
    """Draw correlated sequences (sequences, TIME, FEATURES) with heavy tails and levels."""
    rng = np.random.default_rng(seed)
    level = rng.standard_normal((sequences, 1, FEATURES), "float32")
    x = rng.standard_normal((sequences, TIME, FEATURES), "float32")
    for t in range(1, TIME):  # an autoregressive process of variance 1
        x[:, t] = 0.8 * x[:, t - 1] + 0.6 * x[:, t]
    scale = np.exp(0.3 * rng.standard_normal((sequences, 1, 1), "float32"))
    return 3.0 + scale * (x + level)


def unit_errors(x: Array, *, per_timestep: bool) -> list[float]:
    """Compute the standard errors of mean and variance for a sample of one sequence.

    Both are root mean squares over the features, and relative.
    """
    axes = 0 if per_timestep else (0, 1)
    centered = (x - x.mean(axis=axes, keepdims=True)) / x.std(axis=axes, keepdims=True)
    values = [centered, centered * centered - 1.0]
    if not per_timestep:  # each sequence is one value: its mean over the timesteps
        values = [value.mean(axis=1) for value in values]
    return [root_mean_square(value.std(axis=0)) for value in values]


def measure(x: Array, sizes: list[int], repeats: int = REPEATS) -> list[Errors]:
    """Compare the statistics of random samples with the statistics of all sequences."""
    rng, found = np.random.default_rng(1), []
    for norm in (
        keras_norm.TimestepBatchNormalization(TIME, name="one_timestep"),
        keras_norm.BatchNormalization(name="all_timesteps"),
    ):
        collector = StatisticsCollector(keras.Sequential([keras.Input((TIME, FEATURES)), norm]))
        whole = collector(x, batch_size=BATCH).layers[norm.name]
        units = unit_errors(x, per_timestep=norm.per_timestep)
        for size in sizes:
            errors = []
            for _ in range(repeats):
                rows = np.sort(rng.choice(len(x), size, replace=False))
                sample = collector(x[rows], batch_size=BATCH).layers[norm.name]
                of_mean = (sample.mean - whole.mean) / np.sqrt(whole.variance)
                errors.append([of_mean, sample.variance / whole.variance - 1.0])
            mean, variance = map(root_mean_square, np.swapaxes(errors, 0, 1))
            share = float(np.sqrt((1.0 - size / len(x)) / size))
            found.append(
                Errors(norm.name, size, mean, units[0] * share, variance, units[1] * share)
            )
    return found


def root_mean_square(errors: Array) -> float:
    """Return the root of the mean square of all elements."""
    return float(np.sqrt(np.mean(np.square(errors, dtype="float64"))))


def main(argv: list[str] | None = None) -> None:
    """Print a table of measured and expected errors in percent."""
    parser = argparse.ArgumentParser(description="errors of the statistics of samples")
    parser.add_argument("--sequences", type=int, default=1_000_000)
    args = parser.parse_args(argv)
    sizes = [size for size in (100, 1000, 10_000, 100_000) if size < args.sequences]
    print("| statistics of | sequences | mean | formula | variance | formula |")
    print("|---|---|---|---|---|---|")
    for errors in measure(draw_sequences(args.sequences), sizes):
        cells = " | ".join(f"{100 * e:.2g} %" for e in errors[2:])
        print(f"| {errors.layer.replace('_', ' ')} | {errors.sequences:,} | {cells} |")


if __name__ == "__main__":
    main()
