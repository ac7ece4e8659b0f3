"""LayerNorm and RMSNorm of one timestep: the forward pass and the gradients."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import keras
from keras import ops

from keras_norm.keras_internals import xla_compiles
from keras_norm.typing import Tensor, Tensors

# `row_mean` reshapes a row of n > 64 elements to a matrix. The number of columns of the matrix is
# the largest divisor of n in this range.
COLUMNS = range(16, 65)


@dataclasses.dataclass(frozen=True)
class SampleNorm:
    """Normalize each sample over its n features: LayerNorm with `center=True`, else RMSNorm.

    ::

        y = gamma * (a - m) * r + beta        m = mean(a)        r = 1 / sqrt(v + epsilon)
        v = mean((a - m)^2) * n / (n - ddof)

    With `outside`, r = 1 / (sqrt(v) + epsilon). RMSNorm has m = 0. The backward pass is::

        k = dy * gamma        a' = (a - m) * r        s = -2 / r^3 * dr / dmean((a - m)^2)
        da = r * (k - mean(k) - s * a' * mean(k * a'))

    The statistics of a step are [r], or [r, m] with `center`, each (..., 1).
    """

    center: bool
    epsilon: float
    ddof: int = 0
    outside: bool = False

    per_batch: ClassVar = False

    def statistics(
        self, a: Tensor, unmasked: Tensor | None = None, moving: Sequence[Tensor] = ()
    ) -> Tensors:
        """Compute the statistics of `a` over its last axis; ignore `unmasked` and `moving`."""
        # Multiply instead of squaring: TFLite's SQUARE has no 16-bit kernel.
        if not self.center:
            return [self.inverse_deviation(row_mean(a * a), a.shape[-1])]
        m = row_mean(a)
        centered = a - m
        v = row_mean(centered * centered)
        return [self.inverse_deviation(v, a.shape[-1]), m]

    def inverse_deviation(self, v: Tensor, n: int) -> Tensor:
        """Compute r = 1 / sqrt(v + epsilon) from v, the mean square of n features.

        With `ddof`, the sum of squares is divided by n - ddof in place of n.
        """
        if self.ddof:
            v = v * (n / (n - self.ddof))
        if not self.outside:
            return ops.rsqrt(v + self.epsilon)
        # Replace 0 by 1 before `sqrt`: the gradient of `sqrt` at 0 is infinite.
        root = ops.sqrt(ops.where(v > 0, v, 1.0))
        return 1.0 / (ops.where(v > 0, root, 0.0) + self.epsilon)

    def sensitivity(self, r: Tensor, n: int) -> Tensor | float:
        """Compute s, a factor in the gradient of `a`. The class' docstring has the equation of s.

        With `ddof=0` and `outside=False`, s is 1.
        """
        factor = n / (n - self.ddof)
        if not self.outside:
            return factor
        share = 1.0 - self.epsilon * r  # share = sqrt(v) / (sqrt(v) + epsilon)
        return ops.where(share > 0, factor / ops.where(share > 0, share, 1.0), 0.0)

    def apply(self, a: Tensor, statistics: Tensors, gamma: Tensor | None) -> Tensor:
        """Normalize `a` with the given statistics, and multiply by gamma."""
        r, *m = statistics
        a = a - m[0] if m else a
        return a * (r if gamma is None else r * gamma)

    def backward(
        self,
        a: Tensor,
        dy: Tensor,
        statistics: Tensors,
        gamma: Tensor | None,
        unmasked: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradient of `a`, and for each sample the gradients of gamma and beta."""
        r, *m = statistics
        centered = a - m[0] if m else a
        normalized = centered * r
        k = dy if gamma is None else dy * gamma
        s = self.sensitivity(r, a.shape[-1])
        da = k - normalized * (s * row_mean(k * normalized))
        if m:
            da = da - row_mean(k)
        return r * da, dy * normalized, dy


def row_mean(x: Tensor) -> Tensor:
    """Compute the mean over the last axis, like `ops.mean` with `keepdims=True`.

    XLA on TensorFlow adds the elements of a row one after the other, but the elements of a matrix
    product in parallel. So on TensorFlow the mean of a row is a product with ones. XLA
    unrolls the product, so that its compile time grows with the number of columns. The rows are
    therefore folded to the largest divisor of their length in `COLUMNS`. Rows without such a
    divisor are not folded: sums of few columns compile and run more slowly than the product.
    """
    n = x.shape[-1]
    if len(x.shape) != 2 or keras.backend.backend() != "tensorflow" or not xla_compiles():
        return ops.mean(x, axis=-1, keepdims=True)
    columns = max((k for k in COLUMNS if n % k == 0), default=n)
    if columns < n:
        x = ops.sum(ops.reshape(x, (-1, n // columns, columns)), axis=1)
    return ops.matmul(x, ops.ones((columns, 1), x.dtype)) / n
