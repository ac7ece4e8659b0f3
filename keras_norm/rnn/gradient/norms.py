"""Norms inside the loops: of rows, and of columns over the batch, which is batch normalization.

For columns::

    mean = sum(a) / n        var = sum((a - mean)^2) / n        r = 1 / sqrt(var + epsilon)
    y = gamma (a - mean) r + beta

over the n rows that are alive. With moving statistics, or with those of the batch::

    da = gamma r dy
    da = gamma r (dy - (sum(dy) + a' sum(dy a')) / n)        a' = (a - mean) r
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

# Numbers that a row is folded to before they are added up.
LANES = 64


@dataclasses.dataclass(frozen=True)
class RowNorm:
    """A norm of rows: LayerNorm where `centred`, else RMSNorm."""

    centred: bool
    epsilon: float


def of_rows(norm: Any) -> RowNorm | None:
    """The norm, where it is one of rows; None for one of columns."""
    return norm if isinstance(norm, RowNorm) else None


@dataclasses.dataclass
class StateNorm:
    """y = gamma (c - mean) scale + beta, with scale = 1 / sqrt(var + epsilon), of rows c.

    Without a norm y = c.

    Args:
        norm: which one, or None.
        gamma: (units,).
        beta: (units,).
        statistics: [] in a forward pass, which leaves `product_statistics` here; in a backward pass
            these.
    """

    norm: RowNorm | None
    gamma: Any
    beta: Any
    statistics: list[Any]

    def forward(self, c: Any) -> Any:
        """The norm of c."""
        if self.norm is None:
            return c
        if not self.statistics:
            self.statistics = product_statistics(c, self.norm, self.norm.centred)
        return self._normalized(c) * self.gamma + self.beta

    def backward(self, c: Any, dy: Any) -> tuple[Any, list[Any]]:
        """The gradient of c, and those of gamma and beta."""
        if self.norm is None:
            return dy, []
        n = self._normalized(c)
        dn = dy * self.gamma
        dc = dn - n * row_mean(dn * n)
        if self.norm.centred:
            dc = dc - row_mean(dn)
        return self.statistics[0] * dc, [tf.reduce_sum(dy * n, axis=0), tf.reduce_sum(dy, axis=0)]

    def _normalized(self, c: Any) -> Any:
        r, *means = self.statistics
        return (c - means[0] if means else c) * r


def row_mean(a: Any) -> Any:
    """Mean of each row, (batch, 1).

    As a product with ones: XLA adds the elements of a row one after the other, and those of a
    product side by side. Such a product of 16 wide rows is unrolled, and compiles ten times as
    long as one of `LANES`.
    """
    n = a.shape[-1]
    if n % LANES == 0:
        a = tf.reduce_sum(tf.reshape(a, [-1, n // LANES, LANES]), axis=1)
    return tf.matmul(a, tf.ones([a.shape[-1], 1], a.dtype)) / n


def product_statistics(a: Any, norm: RowNorm, shifted: bool) -> list[Any]:
    """What the norm of the rows of a product a = x W takes of them: [r], each (batch, 1).

    ::

        y = gamma a r + beta        r = 1 / sqrt(mean(a^2) + epsilon)

    It serves LayerNorm as well, where the rows of W are centred: the rows of x W then are. Where
    they are not, the norm is `shifted`, and its statistics are [r, mean]::

        y = gamma (a - mean) r + beta        r = 1 / sqrt(mean((a - mean)^2) + epsilon)
    """
    means = [row_mean(a)] if shifted else []
    centred = a - means[0] if means else a
    return [tf.math.rsqrt(row_mean(centred * centred) + norm.epsilon), *means]


@dataclasses.dataclass(frozen=True)
class BatchNorm:
    """A norm of columns; where it is `learning` with the statistics of the batch."""

    epsilon: float
    learning: bool


class Statistics(NamedTuple):
    """Mean and r of columns, (n,); of all timesteps (time, n).

    Two arrays, not one of both: XLA does not vectorize what reads one array in two places.
    """

    mean: Any
    r: Any


@dataclasses.dataclass
class BatchNormStep:
    """A batch norm at one timestep.

    Args:
        norm: which one.
        gamma: (n,).
        beta: (n,).
        alive: [], or [bool (batch, 1)], the rows that the statistics are of.
        moving: the statistics that serve where the norm is not learning, or has fewer than two rows
            alive. None in a backward pass.
        statistics: None in a forward pass, which leaves those that it used here, and the batch's
            own `variance` beside; in a backward pass these.
    """

    norm: BatchNorm
    gamma: Any
    beta: Any
    alive: list[Any]
    moving: Any = None
    statistics: Any = None
    variance: Any = None

    def forward(self, a: Any) -> Any:
        """The norm of a (batch, n)."""
        if self.statistics is None:
            self.statistics = self._of_batch(a) if self.norm.learning else self.moving
        mean, r = self.statistics
        return (a - mean) * (r * self.gamma) + self.beta

    def backward(self, a: Any, dy: Any) -> tuple[Any, list[Any]]:
        """The gradient of a, and those of gamma and beta. dy is zero where nothing is alive."""
        mean, r = self.statistics
        normalized = (a - mean) * r
        dgamma, dbeta = tf.reduce_sum(dy * normalized, axis=0), tf.reduce_sum(dy, axis=0)
        da = dy
        if self.norm.learning:
            n = self._count(a)
            share = tf.where(n < 2.0, tf.zeros_like(n), 1.0 / n)
            da = self._where_alive(dy - (share * dbeta + normalized * (share * dgamma)))
        return (r * self.gamma) * da, [dgamma, dbeta]

    def _of_batch(self, a: Any) -> Statistics:
        """Those of the batch, where it has two rows alive."""
        n = self._count(a)
        mean = tf.reduce_sum(self._where_alive(a), axis=0) / tf.maximum(n, 1.0)
        centred = self._where_alive(a - mean)
        self.variance = tf.reduce_sum(centred * centred, axis=0) / tf.maximum(n, 1.0)
        batch = Statistics(mean, tf.math.rsqrt(self.variance + self.norm.epsilon))
        return tf.nest.map_structure(lambda m, b: tf.where(n < 2.0, m, b), self.moving, batch)

    def _count(self, a: Any) -> Any:
        """The number of rows that are alive, as a number of a's own dtype."""
        if not self.alive:
            return tf.cast(tf.shape(a)[0], a.dtype)
        return tf.reduce_sum(tf.cast(self.alive[0], a.dtype))

    def _where_alive(self, a: Any) -> Any:
        return tf.where(self.alive[0], a, tf.zeros([], a.dtype)) if self.alive else a
