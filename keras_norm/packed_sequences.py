"""Pack sequences of unequal lengths into rows of equal length, and split outputs by sequence."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_norm.typing import Array, TensorLike


class Place(NamedTuple):
    """Where a sequence was packed: its row, its first timestep, and its last timestep plus 1."""

    row: int
    start: int
    end: int


class PackedSequences:
    """Rows of equal length with several sequences each, without padding between the sequences.

    `pack_sequences` creates the object. Padding is at the end of a row.

    Args:
        sequences: arrays (time, ...).
        places: the place of each sequence.
        length: number of timesteps of a row.

    Attributes:
        rows: the sequences in their rows, (rows, length, ...); zeros at padding.
        resets: bool (rows, length), True at the first timestep of each sequence: the call argument
            `resets` of a recurrent layer.
        mask: bool (rows, length), False at padding: the call argument `mask`.
        is_last: bool (rows, length), True at the last timestep of each sequence: the weights of a
            loss that needs one output of each sequence.
        places: the place of each sequence, in the order of the sequences.
    """

    def __init__(self, sequences: Sequence[Array], places: Sequence[Place], length: int) -> None:
        self.places = list(places)
        self._length = length
        self.rows = self.pack(sequences)
        shape = self.rows.shape[:2]
        self.resets, self.mask, self.is_last = (np.zeros(shape, bool) for _ in range(3))
        for row, start, end in self.places:
            self.resets[row, start] = self.is_last[row, end - 1] = True
            self.mask[row, start:end] = True

    def __repr__(self) -> str:
        filled = self.mask.mean()
        return (
            f"<PackedSequences of {len(self.places)} sequences in {len(self.rows)} rows of "
            f"{self._length} timesteps, {filled:.0%} of the timesteps filled>"
        )

    def pack(self, sequences: Sequence[TensorLike]) -> Array:
        """Pack other sequences, such as targets, into the same rows and timesteps as the sequences.

        Args:
            sequences: arrays (time, ...), as long as the packed sequences and in their order.

        Returns:
            (rows, length, ...); zeros at padding.

        Raises:
            ValueError: the number, a length or a shape differs.
        """
        arrays = list(map(np.asarray, sequences))
        lengths = [end - start for _, start, end in self.places]
        if [len(a) if a.ndim else None for a in arrays] != lengths:
            raise ValueError(
                f"pack needs {len(lengths)} sequences of the lengths {_shorten(lengths)}, like the "
                "packed sequences. "
                f"Received: {len(arrays)} arrays of shapes {_shorten([a.shape for a in arrays])}."
            )
        if len({array.shape[1:] for array in arrays}) > 1:
            raise ValueError(
                "All sequences must have equal shapes after the time axis. Received: shapes "
                f"{_shorten(sorted({array.shape[1:] for array in arrays}))}."
            )
        rows = 1 + max(row for row, *_ in self.places)
        packed = np.zeros((rows, self._length, *arrays[0].shape[1:]), np.result_type(*arrays))
        for (row, start, end), array in zip(self.places, arrays, strict=True):
            packed[row, start:end] = array
        return packed

    def unpack(self, outputs: TensorLike) -> list[Array]:
        """Split the outputs of the packed rows into one array for each sequence.

        Args:
            outputs: (rows, length, ...), of a layer with `return_sequences=True`.

        Returns:
            An array (time, ...) for each sequence, in the order of the sequences.

        Raises:
            ValueError: `outputs` has another number of rows or timesteps.
        """
        outputs = self._require_rows(outputs)
        return [outputs[row, start:end] for row, start, end in self.places]

    def unpack_last(self, outputs: TensorLike) -> Array:
        """Take the output at the last timestep of each sequence, (sequences, ...).

        The arguments and the errors are those of `unpack`.
        """
        rows, _, ends = np.transpose(self.places)
        last: Array = self._require_rows(outputs)[rows, ends - 1]
        return last

    def _require_rows(self, outputs: TensorLike) -> Array:
        array: Array = np.asarray(outputs)
        if array.shape[:2] != self.mask.shape:
            raise ValueError(
                "The outputs must have the shape (rows, timesteps, ...), beginning with "
                f"{self.mask.shape}. Received: shape {array.shape}. Set return_sequences=True in "
                "the layer."
            )
        return array


def pack_sequences(sequences: Sequence[TensorLike], length: int | None = None) -> PackedSequences:
    """Pack sequences into as few rows as possible, so that a batch has little padding.

    The longest sequence is placed first, each in the first row with enough room (first-fit
    decreasing). A recurrent layer of this package that receives `resets` computes the same outputs
    as for each sequence alone.

    Args:
        sequences: arrays (time, features), or token ids (time,); at least one timestep each.
        length: number of timesteps of a row; None for the length of the longest sequence.

    Returns:
        `PackedSequences`: the rows, their resets and their mask, and the methods `unpack` and
        `unpack_last` for the way back.

    Raises:
        ValueError: there is no sequence, a sequence is empty or longer than `length`, or the shapes
            behind the time axis differ.

    Example:
        >>> texts = [[5, 3, 8], [2, 9], [7], [4, 6, 1]]
        >>> packed = pack_sequences(texts, length=5)
        >>> packed.rows
        array([[5, 3, 8, 2, 9],
               [4, 6, 1, 7, 0]])
        >>> x = keras.layers.Embedding(10, 4)(packed.rows)
        >>> layer = LayerNormLSTM(3, return_sequences=True)
        >>> y = layer(x, resets=packed.resets, mask=packed.mask)
        >>> [output.shape for output in packed.unpack(y)]
        [(3, 3), (2, 3), (1, 3), (3, 3)]
    """
    arrays = [np.asarray(sequence) for sequence in sequences]
    if not arrays:
        raise ValueError("pack_sequences needs at least one sequence. Received: no sequence.")
    for k, array in enumerate(arrays):
        if not array.ndim or not len(array):
            raise ValueError(
                "pack_sequences needs sequences of one timestep or more. Received: shape "
                f"{array.shape} of sequence {k}. Remove it."
            )
    lengths = np.array([len(array) for array in arrays])
    longest = int(lengths.max())
    length = longest if length is None else length
    if longest > length:
        raise ValueError(
            f"`length` must be at least the length of the longest sequence. Received: "
            f"length={length}, but sequence {int(lengths.argmax())} has {longest} timesteps. Cut "
            "this sequence, or increase `length`."
        )
    return PackedSequences(arrays, _first_fit_decreasing(lengths, length), length)


def _first_fit_decreasing(lengths: Array, length: int) -> list[Place]:
    """Choose the row and the timesteps of each sequence, beginning with the longest sequence."""
    room = np.full(len(lengths), length)
    places = {}
    for k in np.argsort(-lengths, kind="stable"):
        n = int(lengths[k])
        row = int(np.argmax(room >= n))
        start = length - int(room[row])
        places[int(k)] = Place(row, start, start + n)
        room[row] -= n
    return [places[k] for k in range(len(lengths))]


def _shorten(values: Sequence[object]) -> str:
    shown = ", ".join(map(str, values[:4]))
    return f"[{shown}, ...]" if len(values) > 4 else f"[{shown}]"
