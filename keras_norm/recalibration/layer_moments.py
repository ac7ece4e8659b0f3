"""Count, mean and variance of the inputs of one layer on data."""

import dataclasses

import keras
import numpy as np

from keras_norm.ops.enough_sequences import MIN_SEQUENCES
from keras_norm.ops.global_statistics import BatchStatistics
from keras_norm.typing import Array


@dataclasses.dataclass(frozen=True, eq=False)
class LayerMoments:
    """Count, mean and variance of the inputs of a batch normalization, in float64.

    A layer has one row of statistics, or one row for each timestep: the leading dimensions of the
    arrays are () or (max_timesteps,).

    Attributes:
        count: number of unmasked positions, (..., 1).
        mean: (..., features).
        variance: mean of the squared deviations from `mean`, (..., features).
        batches: number of batches with unmasked positions, (...).
        called: whether the model called the layer in training mode.
    """

    count: Array
    mean: Array
    variance: Array
    batches: Array
    called: bool

    @classmethod
    def empty(cls, layer: keras.layers.Layer) -> "LayerMoments":
        """Return the statistics of a layer that has received no data: the count is 0."""
        shape = tuple(layer.moving_mean.shape)
        batches = np.zeros(shape[:-1], "int64")
        return cls(np.zeros((*shape[:-1], 1)), np.zeros(shape), np.zeros(shape), batches, False)

    @property
    def moments(self) -> BatchStatistics:
        """Return the mean, the variance and the count of the layer's inputs."""
        return BatchStatistics(self.mean, self.variance, self.count)

    def merge(self, other: "LayerMoments") -> "LayerMoments":
        """Compute a layer's statistics on all data from its statistics on two parts of the data."""
        # Hide NumPy's warning of an overflow: `is_finite` reports an overflow later.
        with np.errstate(over="ignore", invalid="ignore"):
            mean, variance, count = self.moments.merge(other.moments)
        batches, called = self.batches + other.batches, self.called or other.called
        return LayerMoments(count, mean, variance, batches, called)

    def is_finite(self) -> bool:
        """Return whether mean and variance are finite; ignore timesteps without data."""
        rows = self.batches > 0
        return all(bool(np.isfinite(s[rows]).all()) for s in (self.mean, self.variance))

    def has_data(self) -> Array:
        """Return whether the count is enough for a variance: two values or more.

        The result is bool (timesteps, 1), or (1,) for a layer without per-timestep statistics.
        """
        found: Array = self.count >= MIN_SEQUENCES
        return found

    def new_values(self, layer: keras.layers.Layer) -> list[tuple[keras.Variable, Array]]:
        """Pair each moving statistic of a layer with its new value.

        A timestep without data keeps its old statistics. With the layer's `unbiased_variance` the
        divisor of the variance is the count minus 1.
        """
        variance, updated = self.variance, self.has_data()
        if getattr(layer, "unbiased_variance", False):
            variance = variance * self.count / np.maximum(self.count - 1.0, 1.0)
        values = [
            (layer.moving_mean, self.mean, updated),
            (layer.moving_variance, variance, updated),
        ]
        if getattr(layer, "moving_stddev", None) is not None:
            values.append((layer.moving_stddev, np.sqrt(variance + layer.epsilon), updated))
        if getattr(layer, "update_count", None) is not None:
            values.append((layer.update_count, self.batches, updated[..., 0]))
        return [
            (variable, np.where(rows, new, np.asarray(variable))) for variable, new, rows in values
        ]
