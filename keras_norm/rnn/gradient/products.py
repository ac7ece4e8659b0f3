"""A product with a kernel under a norm of its rows, and its gradient.

For y = gamma r a + beta with a = x W of n columns and r = 1 / sqrt(mean(a^2) + epsilon), and with
e = (gamma dy) W^T::

    da = r (gamma dy - a r^2 mean(gamma dy a))
    dx = da W^T = r e - w x G          w = r^3 (x . e) / n          G = W W^T
    dW = x^T da = gamma (r x)^T dy - (w x)^T x W
    dgamma = the column sums of W (r x)^T dy

since the sum of gamma dy a is that of x e. Only dy is as wide as a, and a need not be kept: what
the chain of states needs is as narrow as x.

It serves LayerNorm too, where the rows of W are centred (`centre`): those of x W then are, and the
mean of gamma dy, which LayerNorm takes off, falls out, as a row of equal numbers times W^T is 0.

With a dropout mask for each gate, a is made of blocks x_b W_b side by side; r and w belong to all
of them, and x . e is the sum of the x_b . e_b. No centring of W centres such an a: LayerNorm then
is `shifted`, with m = mean(a), and q = mean(gamma dy)::

    y = gamma r (a - m) + beta
    da = r gamma dy - w a - p          w = r^3 ((x . e) / n - m q)        p = r q - w m
    dx_b = r e_b - w x_b G_b - p s_b                    s_b = the row sums of W_b
    dW_b = gamma (r x_b)^T dy_b - (w x_b)^T x_b W_b - x_b^T p
    dgamma_b = the column sums of W_b (r x_b)^T dy_b, less (r m)^T dy_b
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.rnn.gradient.norms import RowNorm, row_mean


class Product(NamedTuple):
    """One group of columns of x W or h U.

    It is made of blocks, equally wide, which stand side by side.

    Args:
        norm: its norm, or None.
        masks: the number of the dropout mask of each block.
        kernel: W (features, n), centred as far as `Spec.centred`.
        gamma: (n,).
    """

    norm: RowNorm | None
    masks: list[int]
    kernel: Any
    gamma: Any

    @property
    def kernels(self) -> list[Any]:
        """W of each block."""
        return self.split(self.kernel)

    @property
    def scaled_kernels(self) -> list[Any]:
        """Gamma W of each block; W without a norm."""
        return self.split(self.kernel if self.norm is None else self.kernel * self.gamma)

    def split(self, a: Any) -> list[Any]:
        """The columns of each block."""
        return blocks_of(a, len(self.masks))

    def input_gradient(
        self, xs: Sequence[Any], statistics: list[Any], dy: Any
    ) -> tuple[list[Any], list[Any]]:
        """Dx of each block, and the `row_terms`.

        Args:
            xs: x under each dropout mask, (rows, features).
            statistics: of `norms.product_statistics`, each (rows, 1); [] without a norm.
            dy: (rows, columns of the group).
        """
        es = [
            tf.matmul(d, kernel, transpose_b=True)
            for d, kernel in zip(self.split(dy), self.scaled_kernels, strict=True)
        ]
        if self.norm is None:
            return es, []
        rows = [xs[mask] for mask in self.masks]
        terms = row_terms(rows, es, statistics, dy, self.gamma)
        second = [tf.matmul(x, gram(kernel)) for x, kernel in zip(rows, self.kernels, strict=True)]
        sums = [tf.reduce_sum(kernel, axis=1) for kernel in self.kernels]
        parts = zip(es, second, sums, strict=True)
        return [block_gradient(statistics, terms, *part) for part in parts], terms

    def kernel_gradient(
        self, xs: Sequence[Any], statistics: list[Any], terms: list[Any], dy: Any
    ) -> list[Any]:
        """[dW, dgamma, dbeta]; arguments as above."""
        gradients = []
        r, means = statistics[:1], statistics[1:]
        # The columns beside x bring the sum of dy, and of r m dy.
        beside = [tf.ones([tf.shape(dy)[0], 1], dy.dtype), *[r[0] * m for m in means]]
        blocks = self.kernels, self.split(self.gamma), self.split(dy)
        for mask, kernel, gamma, d in zip(self.masks, *blocks, strict=True):
            x = xs[mask]
            rows = tf.concat([r[0] * x if r else x, *beside], axis=1)
            products = tf.matmul(rows, d, transpose_a=True)
            q, dbeta, rest = tf.split(products, [x.shape[1], 1, len(means)])
            if not r:
                gradients.append([q, tf.zeros_like(gamma), dbeta[0]])
                continue
            dw = gamma * q - tf.matmul(tf.matmul(terms[0] * x, x, transpose_a=True), kernel)
            for p in terms[1:]:
                dw = dw - tf.matmul(x, p, transpose_a=True)
            dgamma = tf.reduce_sum(kernel * q, axis=0) - tf.reduce_sum(rest, axis=0)
            gradients.append([dw, dgamma, dbeta[0]])
        return side_by_side(gradients)


def split(a: Any, widths: list[int]) -> list[Any]:
    """The columns of each group."""
    return [a] if len(widths) == 1 else tf.split(a, widths, axis=-1)


def blocks_of(a: Any, blocks: int) -> list[Any]:
    """The columns of each block of a group."""
    return split(a, [a.shape[-1] // blocks] * blocks)


def side_by_side(arrays: list[list[Any]]) -> list[Any]:
    """Lists of arrays as one list, of all their columns."""
    return arrays[0] if len(arrays) == 1 else [tf.concat(a, -1) for a in zip(*arrays, strict=True)]


def row_terms(
    xs: Sequence[Any], es: Sequence[Any], statistics: list[Any], dy: Any, gamma: Any
) -> list[Any]:
    """[w], or [w, p] where the norm is shifted, each (batch, 1).

    Args:
        xs: x of each block, (batch, features).
        es: e of each block, as wide.
        statistics: of `norms.product_statistics`.
        dy: (batch, n) of the group.
        gamma: (n,) of the group.
    """
    r, *means = statistics
    n = dy.shape[-1]
    dot = tf.add_n([row_mean(x * e) * (x.shape[-1] / n) for x, e in zip(xs, es, strict=True)])
    if not means:
        return [r * r * r * dot]
    m, q = means[0], tf.matmul(dy, gamma[:, None]) / n
    w = r * r * r * (dot - m * q)
    return [w, r * q - w * m]


def block_gradient(statistics: list[Any], terms: list[Any], e: Any, second: Any, sums: Any) -> Any:
    """Dx = r e - w x G, less p s where the norm is shifted.

    Args:
        statistics: of `norms.product_statistics`.
        terms: of `row_terms`.
        e: of a block, (batch, features).
        second: its x G, as wide.
        sums: its s, (features,).
    """
    dx = statistics[0] * e - terms[0] * second
    return dx - terms[1] * sums if terms[1:] else dx


def gram(kernel: Any) -> Any:
    """G = W W^T."""
    return tf.matmul(kernel, kernel, transpose_b=True)


def centre(kernel: Any, widths: list[int], centred: list[bool]) -> Any:
    """The kernel less the mean of each row, in those groups of columns that are to be centred.

    The gradient of it is the same of its gradient.
    """
    groups = split(kernel, widths)
    for k, part in enumerate(groups):
        if centred[k]:
            groups[k] = part - tf.reduce_mean(part, axis=1, keepdims=True)
    return side_by_side([[group] for group in groups])[0]
