"""Norms of rows, inside the loops."""

from typing import Any, NamedTuple

import tensorflow as tf


class RowNorm(NamedTuple):
    """A norm of rows: LayerNorm where `centred`, else RMSNorm."""

    centred: bool
    epsilon: float


def of_rows(norm: Any) -> RowNorm | None:
    """The norm, where it is one of rows; None for one of columns."""
    return norm if isinstance(norm, RowNorm) else None


class StateNorm:
    """y = gamma (c - mean) scale + beta, with scale = 1 / sqrt(var + epsilon), of rows c.

    Without a norm y = c.

    Args:
        norm: which one, or None.
        gamma: (units,).
        beta: (units,).
        statistics: [] in a forward pass, which computes them; in a backward pass what the forward
            one left here: the mean, where the norm centres, and the scale, each (batch, 1).
    """

    def __init__(self, norm: RowNorm | None, gamma: Any, beta: Any, statistics: list[Any]) -> None:
        self.norm = norm
        self.gamma = gamma
        self.beta = beta
        self.statistics = statistics

    def forward(self, c: Any) -> Any:
        """The norm of c."""
        if self.norm is None:
            return c
        if not self.statistics:
            means = [row_mean(c)] if self.norm.centred else []
            centred = c - means[0] if means else c
            scale = tf.math.rsqrt(row_mean(centred * centred) + self.norm.epsilon)
            self.statistics = [*means, scale]
        return self._normalized(c) * self.gamma + self.beta

    def backward(self, c: Any, dy: Any) -> tuple[Any, list[Any]]:
        """The gradient of c, and those of gamma and beta."""
        if self.norm is None:
            return dy, []
        n, scale = self._normalized(c), self.statistics[-1]
        dn = dy * self.gamma
        dc = dn - n * row_mean(dn * n)
        if self.norm.centred:
            dc = dc - row_mean(dn)
        return scale * dc, [tf.reduce_sum(dy * n, axis=0), tf.reduce_sum(dy, axis=0)]

    def _normalized(self, c: Any) -> Any:
        centred = c - self.statistics[0] if self.norm and self.norm.centred else c
        return centred * self.statistics[-1]


def statistics_count(norm: RowNorm | None) -> int:
    """How many statistics a state norm has."""
    return 0 if norm is None else 1 + norm.centred


def row_mean(a: Any) -> Any:
    """Mean of each row, (batch, 1).

    As a product with ones: XLA adds the elements of a row one after the other, and those of a
    product side by side.
    """
    n = a.shape[-1]
    return tf.matmul(a, tf.ones([n, 1], a.dtype)) / n


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
