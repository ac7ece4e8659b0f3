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
of them, and x . e is the sum of the x_b . e_b.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.ops.fast.norms import RowNorm, row_mean


class Product(NamedTuple):
    """One group of columns of x W or h U.

    Args:
        norm: its norm, or None.
        columns: where it stands among all columns.
        blocks: what it is made of: for each, the number of the dropout mask and the columns.
        kernel: W (features, all columns), centred where the norm centres.
        gamma: (all columns,).
    """

    norm: RowNorm | None
    columns: slice
    blocks: list[tuple[int, slice]]
    kernel: Any
    gamma: Any

    @property
    def kernels(self) -> list[Any]:
        """W of each block."""
        return [self.kernel[:, columns] for _, columns in self.blocks]

    @property
    def scaled_kernels(self) -> list[Any]:
        """Gamma W of each block; W without a norm."""
        if self.norm is None:
            return self.kernels
        return [self.kernel[:, columns] * self.gamma[columns] for _, columns in self.blocks]

    def split(self, dy: Any) -> list[Any]:
        """The columns of each block of a gradient of this group."""
        return [block_of(dy, self.columns, columns) for _, columns in self.blocks]

    def input_gradient(self, xs: Sequence[Any], r: Any, dy: Any) -> tuple[list[Any], Any]:
        """Dx of each block, and w.

        Args:
            xs: x under each dropout mask, (rows, features).
            r: (rows, 1), or None without a norm.
            dy: (rows, columns of the group).
        """
        es = [
            tf.matmul(d, kernel, transpose_b=True)
            for d, kernel in zip(self.split(dy), self.scaled_kernels, strict=True)
        ]
        if self.norm is None:
            return es, None
        rows = [xs[mask] for mask, _ in self.blocks]
        w = second_term(rows, es, r, dy.shape[1])
        return [
            r * e - w * tf.matmul(x, gram(kernel))
            for e, x, kernel in zip(es, rows, self.kernels, strict=True)
        ], w

    def kernel_gradient(self, xs: Sequence[Any], r: Any, w: Any, dy: Any) -> list[list[Any]]:
        """dW, dgamma and dbeta of each block; arguments as above."""
        gradients = []
        for (mask, columns), d in zip(self.blocks, self.split(dy), strict=True):
            x, kernel, gamma = xs[mask], self.kernel[:, columns], self.gamma[columns]
            # The column of ones brings the sum of dy.
            rows = tf.concat([x if r is None else r * x, tf.ones_like(x[:, :1])], axis=1)
            q = tf.matmul(rows, d, transpose_a=True)
            q, dbeta = q[:-1], q[-1]
            if r is None:
                gradients.append([q, tf.zeros_like(gamma), dbeta])
                continue
            second = tf.matmul(tf.matmul(w * x, x, transpose_a=True), kernel)
            gradients.append([gamma * q - second, tf.reduce_sum(kernel * q, axis=0), dbeta])
        return gradients


def block_of(dy: Any, group: slice, columns: slice) -> Any:
    """Some columns of a gradient of a group, both counted among all columns."""
    return dy[:, columns.start - group.start : columns.stop - group.start]


def second_term(xs: Sequence[Any], es: Sequence[Any], r: Any, n: int) -> Any:
    """W of each row, (batch, 1); arguments as above, for each block."""
    sums = [row_mean(x * e) * (x.shape[-1] / n) for x, e in zip(xs, es, strict=True)]
    return r * r * r * tf.add_n(sums)


def gram(kernel: Any) -> Any:
    """G = W W^T."""
    return tf.matmul(kernel, kernel, transpose_b=True)


def centre(kernel: Any, columns: list[slice], norms: tuple[Any, ...]) -> Any:
    """The kernel less the mean of each row, in each group of columns whose norm centres rows."""
    groups = []
    for group, norm in zip(columns, norms, strict=True):
        part = kernel[:, group]
        if isinstance(norm, RowNorm) and norm.centred:
            part = part - tf.reduce_mean(part, axis=1, keepdims=True)
        groups.append(part)
    return tf.concat(groups, axis=1)
