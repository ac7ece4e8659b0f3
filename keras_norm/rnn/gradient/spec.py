"""What a recurrence is: all that its XLA programs depend on, but sizes."""

from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from keras_norm.rnn.gradient.cells import CELLS
from keras_norm.rnn.gradient.norms import BatchNorm, RowNorm, of_rows
from keras_norm.rnn.gradient.products import Product, split

Norm = RowNorm | BatchNorm | None


class Place(NamedTuple):
    """Where a batch norm stands: a group of x W ("kernel") or h U ("recurrent"), or the "state"."""

    side: str
    group: int = 0


STATE = Place("state")


class Spec(NamedTuple):
    """One recurrence.

    `kernel` and `recurrent` name the norm of each group of columns of x W and of h U, None for
    none; `state` that of the LSTM's c. `kernel_masks` and `recurrent_masks` are the dropout masks
    that x and h have: 0, 1 for all gates, or one for each gate.
    """

    cell: str
    units: int
    kernel: tuple[Norm, ...]
    recurrent: tuple[Norm, ...]
    state: Norm
    dtype: str
    masked: bool
    kernel_masks: int
    recurrent_masks: int

    @property
    def gates(self) -> list[list[int]]:
        """The gates of each group."""
        ends = accumulate(CELLS[self.cell].GROUPS, initial=0)
        return [list(range(a, b)) for a, b in pairwise(ends)]

    def widths(self, side: str = "kernel") -> list[int]:
        """The number of columns of each group of one side, named as in a `Place`."""
        gates = (1,) if side == "state" else CELLS[self.cell].GROUPS
        return [n * self.units for n in gates]

    def masks(self, side: str) -> list[list[int]]:
        """The dropout masks of each group: one, or one for each of its gates."""
        own = (self.kernel_masks if side == "kernel" else self.recurrent_masks) > 1
        return [gates if own else [0] for gates in self.gates]

    def shifted(self, side: str) -> list[bool]:
        """Whether the norm of each group of one side takes off the mean of its rows itself.

        A LayerNorm does where its gates have dropout masks of their own; elsewhere the rows of the
        kernel are centred (`products.centre`), and those of the product with them.
        """
        return [
            isinstance(norm, RowNorm) and norm.centred and len(masks) > 1
            for norm, masks in zip(self.norms(side), self.masks(side), strict=True)
        ]

    def centred(self, side: str) -> list[bool]:
        """Whether the rows of the kernel are to be centred, for each group of one side."""
        norms = zip(self.norms(side), self.shifted(side), strict=True)
        return [isinstance(norm, RowNorm) and norm.centred and not own for norm, own in norms]

    def statistics(self, side: str) -> list[int]:
        """How many numbers the norm of each group of one side has of a row: r, and a mean."""
        norms = zip(self.norms(side), self.shifted(side), strict=True)
        return [1 + shifted if of_rows(norm) else 0 for norm, shifted in norms]

    def norms(self, side: str) -> tuple[Norm, ...]:
        """The norms of the groups of one side, named as in a `Place`."""
        return self.kernel if side == "kernel" else self.recurrent

    @property
    def batch_norms(self) -> dict[Place, BatchNorm]:
        """The batch norms, by their places: those of x W, of h U, then that of the state."""
        norms = {
            Place(side, group): norm
            for side in ("kernel", "recurrent")
            for group, norm in enumerate(self.norms(side))
        }
        norms[STATE] = self.state
        return {place: norm for place, norm in norms.items() if isinstance(norm, BatchNorm)}

    @property
    def learning(self) -> list[Place]:
        """Where batch norms stand that take the statistics of the batch."""
        return [place for place, norm in self.batch_norms.items() if norm.learning]

    @property
    def kept(self) -> dict[str, Any]:
        """The arrays that the forward loop keeps for the backward one, by their widths.

        "saved" are the cell's own; "row_statistics" those of the norms of rows, of each group of
        both sides, and of the state; "product" is [h U], where batch norms need it.
        Each is an array of its own: XLA does not vectorize what reads one array in two places.
        """
        product = any(place.side == "recurrent" for place in self.batch_norms)
        of_state = 1 + self.state.centred if isinstance(self.state, RowNorm) else 0
        sides = ("kernel", "recurrent")
        of_rows: dict[str, Any] = {s: [[1] * n for n in self.statistics(s)] for s in sides}
        return {
            "saved": [self.units] * CELLS[self.cell].SAVED,
            "row_statistics": {**of_rows, "state": [1] * of_state},
            "product": [sum(self.widths())] * product,
        }

    @property
    def gradients(self) -> dict[str, list[int]]:
        """Which array has the gradient of each group of x W ("kernel") and of h U ("recurrent").

        Groups that are added share it, as far as no batch norm stands between.
        """
        cell = CELLS[self.cell]
        of_groups = {
            side: [
                (side, group) if isinstance(norm, BatchNorm) else gradient
                for group, (norm, gradient) in enumerate(zip(self.norms(side), shared, strict=True))
            ]
            for side, shared in (("kernel", cell.KERNEL), ("recurrent", cell.RECURRENT))
        }
        arrays: list[Any] = list(dict.fromkeys(of_groups["kernel"] + of_groups["recurrent"]))
        return {side: [arrays.index(g) for g in groups] for side, groups in of_groups.items()}

    def products(self, side: str, kernel: Any, gamma: Any) -> list[Product]:
        """The groups of x W, or of h U, with their kernels and their norms of rows."""
        kernels, gammas = (split(a, self.widths()) for a in (kernel, gamma))
        norms = map(of_rows, self.norms(side))
        groups = zip(norms, self.masks(side), kernels, gammas, strict=True)
        return [Product(*group) for group in groups]
