"""Compute the product x W that a norm normalizes, and the gradients of x and W."""

from typing import NamedTuple

import keras
from keras import ops

from keras_norm.ops.sample_norm import SampleNorm, row_mean
from keras_norm.rnn.core.operations import side_by_side, split_columns
from keras_norm.rnn.core.recurrence import Recurrence, Slot, Tree
from keras_norm.typing import Tensor, Tensors

# The gradient of a norm uses the Gram matrix W W^T if the norm has more than GRAM_RATIO columns for
# each feature of x. For the recurrent kernel, the Gram matrix is faster with the gates of an LSTM
# (4 * units columns), and slower with the gates of a GRU (2 * units) and its candidate (units).
GRAM_RATIO = 3


class Product(NamedTuple):
    """The product a = x W of inputs and a kernel. Each group of its columns has its own norm.

    The gradient through a `SampleNorm` of many columns needs neither a nor its gradient, which are
    wide. For LayerNorm the rows of W have zero mean. So the rows of a have zero mean too, and the
    LayerNorm equals an RMSNorm. Let r be the `r` of `SampleNorm`, dy the gradient of the
    normalized group, and n the number of columns. Then::

        e = (gamma dy) W^T        w = s r^3 (x . e) / n        G = W W^T
        dx = r e - w x G
        dW = gamma * (r x)^T dy - (w x)^T x W
        dgamma = column sums of W * (r x)^T dy

    because sum(gamma dy a) = x . e. The mean of gamma dy, which LayerNorm subtracts, contributes
    nothing: a row of equal numbers times W^T is zero. The products with G and with (w x)^T x cost
    more than they save if x is wide. All other groups have the gradient da::

        dx = da W^T        dW = x^T da

    The groups of a product with a dropout mask for each gate have the gradient da too. The inputs
    of such a product are a list of one x for each gate, and its kernel is not centered.

    Args:
        slots: the slot of each group of columns.
        kernel: W (features, columns).
        gamma: gamma by slot.
        inputs: number of inputs: 1, or the number of gates.
    """

    slots: tuple[Slot, ...]
    kernel: Tensor
    gamma: dict[str, Tensor]
    inputs: int

    def uses_gram(self, slot: Slot) -> bool:
        """Return whether the gradient of a norm is computed with the Gram matrix G = W W^T."""
        is_wide = slot.width > GRAM_RATIO * self.kernel.shape[0]
        return isinstance(slot.norm, SampleNorm) and self.inputs == 1 and is_wide

    def needs_product(self, slot: Slot) -> bool:
        """Return whether the backward pass of a norm needs its input, a group of columns of `a`."""
        return slot.norm is not None and not self.uses_gram(slot)

    @property
    def is_needed(self) -> bool:
        """Whether the backward pass of any norm needs the product `a`."""
        return any(map(self.needs_product, self.slots))

    def groups(self, a: Tensor) -> list[Tensor]:
        """Split the columns of the product `a` into one group for each of the `slots`."""
        return split_columns(a, [slot.width for slot in self.slots])

    def blocks(self, a: Tensor) -> list[Tensor]:
        """Split the columns of the product `a` into one block for each of the `inputs`.

        An input with its own dropout mask computes the columns of one gate.
        """
        return ops.split(a, self.inputs, axis=-1) if self.inputs > 1 else [a]

    def multiply(self, xs: Tensors) -> Tensor:
        """Compute the product a = x W."""
        return side_by_side(list(map(_multiply, xs, self.blocks(self.kernel))))

    def grams(self, xs: Tensors) -> dict[str, Tensor]:
        """Compute x G, with the Gram matrix G = W W^T, for each group of columns that uses G."""
        groups = zip(self.slots, self.groups(self.kernel), strict=True)
        return {
            slot.name: _multiply(xs[0], ops.matmul(kernel, ops.transpose(kernel)))
            for slot, kernel in groups
            if self.uses_gram(slot)
        }

    def transposed(self) -> list[Tensor]:
        """Compute W^T of each group of columns, or (gamma W)^T if the group uses a Gram matrix.

        With several inputs, compute W^T of each block.
        """
        if self.inputs > 1:
            return list(map(ops.transpose, self.blocks(self.kernel)))
        kernels = []
        for slot, kernel in zip(self.slots, self.groups(self.kernel), strict=True):
            scaled = self.uses_gram(slot) and slot.name in self.gamma
            kernels.append(ops.transpose(kernel * self.gamma[slot.name] if scaled else kernel))
        return kernels

    def input_gradients(
        self,
        xs: Tensors,
        rows: list[Tensor],
        statistics: dict[str, Tensors],
        grams: dict[str, Tensor],
        transposed: list[Tensor],
    ) -> tuple[Tensors, dict[str, Tensor]]:
        """Compute the gradients of the inputs, and the factor w in the gradient of each norm.

        The equations of `Product` define w. Only a norm that uses a Gram matrix has a w.

        Args:
            xs: inputs (..., features).
            rows: dy of each group that uses a Gram matrix, and da of all others.
            statistics: statistics by slot.
            grams: result of `grams`.
            transposed: result of `transposed`.
        """
        if self.inputs > 1:
            return list(map(_multiply, self.blocks(side_by_side(rows)), transposed)), {}
        ws: dict[str, Tensor] = {}
        (x,), parts = xs, []
        for slot, row, kernel in zip(self.slots, rows, transposed, strict=True):
            e = _multiply(row, kernel)
            if isinstance(slot.norm, SampleNorm) and self.uses_gram(slot):
                r = statistics[slot.name][0]
                dot = row_mean(x * e) * (x.shape[-1] / slot.width)
                w = slot.norm.sensitivity(r, slot.width) * r * r * r * dot
                e, ws[slot.name] = r * e - w * grams[slot.name], w
            parts.append(e)
        return [sum(parts[1:], parts[0])], ws

    def weight_gradients(
        self,
        xs: Tensors,
        rows: list[Tensor],
        statistics: dict[str, Tensors],
        ws: dict[str, Tensor],
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Compute the gradients of W and gamma, and the sum over samples of each tensor in `rows`.

        The arguments are those of `input_gradients`, and `ws` is its second result. Only the groups
        that use a Gram matrix have a gradient of gamma here.
        """
        if self.inputs > 1:
            blocks = zip(xs, self.blocks(side_by_side(rows)), strict=True)
            sums = {
                slot.name: ops.sum(row, axis=list(range(len(row.shape) - 1)))
                for slot, row in zip(self.slots, rows, strict=True)
            }
            d_kernels = [contract(x, block) for x, block in blocks]
            return side_by_side(d_kernels), {}, sums
        (x,), d_kernels, d_gamma, sums = xs, [], {}, {}
        one = ops.ones_like(x[..., :1])
        for slot, row, kernel in zip(self.slots, rows, self.groups(self.kernel), strict=True):
            scaled = statistics[slot.name][0] * x if self.uses_gram(slot) else x
            # `one` is a column of ones. So the last row of q is the sum of `row` over all samples.
            q = contract(ops.concatenate([scaled, one], axis=-1), row)
            d_kernel, sums[slot.name] = q[:-1], q[-1]
            if self.uses_gram(slot):
                d_gamma[slot.name] = ops.sum(kernel * d_kernel, axis=0)
                square = contract(ws[slot.name] * x, x)
                d_kernel = d_kernel * self.gamma.get(slot.name, 1.0) - ops.matmul(square, kernel)
            d_kernels.append(d_kernel)
        return side_by_side(d_kernels), d_gamma, sums


def kernel_product(recurrence: Recurrence, weights: Tree) -> Product:
    """Return the `Product` x W of the inputs and the kernel."""
    inputs = max(recurrence.input_masks, 1)
    return Product(recurrence.kernel, weights["kernel"], weights["gamma"], inputs)


def recurrent_product(recurrence: Recurrence, weights: Tree) -> Product:
    """Return the `Product` h U of the state and the recurrent kernel."""
    inputs = max(recurrence.recurrent_masks, 1)
    return Product(recurrence.recurrent, weights["recurrent_kernel"], weights["gamma"], inputs)


def _multiply(x: Tensor, kernel: Tensor) -> Tensor:
    """Multiply x (..., features) with a kernel (features, n)."""
    if len(x.shape) == 2 or not _merges_axes():
        return x @ kernel
    product = _merge_axes(x) @ kernel
    return ops.reshape(product, (*ops.shape(x)[:-1], kernel.shape[-1]))


def contract(x: Tensor, y: Tensor) -> Tensor:
    """Sum x^T y over all samples: (..., m) and (..., n) give (m, n)."""
    if len(x.shape) == 2 or _merges_axes():
        return ops.matmul(ops.transpose(_merge_axes(x)), _merge_axes(y))
    samples = list(range(len(x.shape) - 1))
    return ops.tensordot(x, y, axes=(samples, samples))


def _merges_axes() -> bool:
    """Return whether matrix products merge the axes time and batch into one axis.

    TensorFlow multiplies matrices faster. Elsewhere the axes stay: JAX cannot merge the axis of a
    batch that is divided between devices, and would gather the batch on each device.
    """
    return bool(keras.backend.backend() == "tensorflow")


def _merge_axes(x: Tensor) -> Tensor:
    return ops.reshape(x, (-1, x.shape[-1])) if len(x.shape) > 2 else x
