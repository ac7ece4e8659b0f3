"""What a fast sequence form is made for: all that its XLA programs depend on, but sizes."""

from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from keras_norm.ops.fast.cells import CELLS
from keras_norm.ops.fast.norms import RowNorm, statistics_count
from keras_norm.ops.fast.products import Product


class Spec(NamedTuple):
    """One recurrence.

    `kernel` and `recurrent` name the norm of each group of columns of x W and of h U, None for
    none; `state` that of the LSTM's c. `kernel_masks` and `recurrent_masks` are the dropout masks
    that x and h have: 0, 1 for all gates, or one for each gate.
    """

    cell: str
    units: int
    kernel: tuple[RowNorm | None, ...]
    recurrent: tuple[RowNorm | None, ...]
    state: RowNorm | None
    dtype: str
    return_sequences: bool
    masked: bool
    kernel_masks: int
    recurrent_masks: int

    @property
    def columns(self) -> list[slice]:
        """The columns of each group."""
        ends = accumulate((n * self.units for n in CELLS[self.cell].GROUPS), initial=0)
        return [slice(a, b) for a, b in pairwise(ends)]

    def blocks(self, masks: int) -> list[list[tuple[int, slice]]]:
        """For each group, the products that it is made of: the dropout mask, and the columns."""
        if masks <= 1:
            return [[(0, columns)] for columns in self.columns]
        gates = range(self.columns[-1].stop // self.units)
        return [
            [
                (gate, slice(gate * self.units, (gate + 1) * self.units))
                for gate in gates
                if group.start <= gate * self.units < group.stop
            ]
            for group in self.columns
        ]

    @property
    def scales(self) -> int:
        """How many numbers the norms leave for each row and timestep."""
        products = [norm for norm in (*self.kernel, *self.recurrent) if norm is not None]
        return len(products) + statistics_count(self.state)

    def products(
        self, norms: tuple[RowNorm | None, ...], masks: int, kernel: Any, gamma: Any
    ) -> list[Product]:
        """The groups of x W, or of h U, with their kernels."""
        groups = zip(norms, self.columns, self.blocks(masks), strict=True)
        return [Product(*group, kernel, gamma) for group in groups]
