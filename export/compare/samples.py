"""Validate real samples for a model's inputs, and take test inputs from them."""

import dataclasses
import numbers
import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keras_norm.export.compare.arrays import convert_input
from keras_norm.export.input_names import TensorSpec, with_file_names
from keras_norm.typing import Arrays, TensorLike


@dataclasses.dataclass(frozen=True)
class Case:
    """The test inputs for one call of a model, and the model's outputs for them.

    Attributes:
        name: "batch 7, length 12", or "batch 7, length 12, padded left".
        rows: (batch,), index of each row's sample in the user's data.
        length: number of timesteps of the longest input with a dynamic time dimension. None if no
            time dimension is dynamic, or if the data have inputs of different lengths and keep
            them.
        inputs: arrays by input name.
        masked: whether timesteps of the data are masked.
        outputs: the Keras model's outputs by name; empty before the model ran.
    """

    name: str
    rows: tuple[int, ...]
    length: int | None
    inputs: Arrays
    masked: bool = False
    outputs: Arrays = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Samples:
    """Validated real data for a model's inputs.

    Attributes:
        specs: input specs by input name.
        arrays: arrays by input name, in the dtype of their spec, all with equally many samples. An
            input of texts has an array of bytes objects (`arrays.to_bytes`).
        first: number of the first sample in the user's data.
    """

    specs: Mapping[str, TensorSpec]
    arrays: Arrays
    first: int = 0

    @property
    def count(self) -> int:
        """Return the number of samples."""
        return len(next(iter(self.arrays.values())))

    @property
    def batch(self) -> int | None:
        """Return the static batch size of the model, or None if the batch dimension is dynamic."""
        return next(filter(None, (spec.shape[0] for spec in self.specs.values())), None)

    @property
    def sequences(self) -> tuple[str, ...]:
        """Return the names of the inputs with a dynamic time dimension (axis 1)."""
        return tuple(n for n, spec in self.specs.items() if spec.shape[1:2] == (None,))

    @property
    def length(self) -> int | None:
        """Return the number of timesteps of the data; None if the inputs have different lengths.

        Only inputs with a dynamic time dimension count. Without such inputs the result is None.
        """
        lengths = {self.arrays[name].shape[1] for name in self.sequences}
        return lengths.pop() if len(lengths) == 1 else None

    @property
    def longest(self) -> int:
        """Return the length of the longest input, or 0 if no input has a dynamic time dimension."""
        return max((self.arrays[name].shape[1] for name in self.sequences), default=0)

    def take(self, rows: Sequence[int], length: int | None = None) -> Arrays:
        """Return the inputs of some samples; cut or repeat each sequence to `length` timesteps.

        If the inputs differ in length, the longest input gets `length` timesteps. Every shorter
        input is cut or repeated in proportion.

        Args:
            rows: sample numbers; numbers beyond the last sample start over.
            length: number of timesteps; None for the length of the data.
        """
        inputs = {n: np.take(a, rows, axis=0, mode="wrap") for n, a in self.arrays.items()}
        if length is not None:
            for name in self.sequences:
                own = self.arrays[name].shape[1]
                # Round the number of timesteps up, so that every input has at least one timestep.
                steps = range(-(-length * own // self.longest))
                inputs[name] = np.take(inputs[name], steps, axis=1, mode="wrap")
        return inputs

    def case(self, rows: Sequence[int], length: int | None = None) -> Case:
        """Make the inputs of one call from some samples; cut or repeat each sequence to `length`.

        Args:
            rows: as for `take`.
            length: as for `take`.
        """
        rows = [int(row) % self.count for row in rows]
        length = self.length if length is None else length
        name = f"batch {len(rows)}" + ("" if length is None else f", length {length}")
        numbers = tuple(self.first + row for row in rows)
        return Case(name, numbers, length, self.take(rows, length))

    def batches(self, size: int) -> Iterator[tuple[slice, Case]]:
        """Yield (slice of the samples, test inputs) for each batch of at most `size` samples.

        If the model has a static batch size, that size replaces `size`, and the first samples fill
        up the last batch.
        """
        size = self.batch or size
        for start in range(0, self.count, size):
            rows = slice(start, min(start + size, self.count))
            yield rows, self.case(range(start, start + size if self.batch else rows.stop))


def read_samples(
    specs: Mapping[str, TensorSpec],
    data: Mapping[str, TensorLike] | Sequence[TensorLike] | TensorLike,
    first: int = 0,
) -> Samples:
    """Validate that the user's data fit a model's inputs, and convert them to arrays.

    Args:
        specs: input specs by input name.
        data: arrays (samples, ...) by input name; or a list or tuple of arrays in the inputs'
            order; or one array for a model with one input.
        first: number of the first sample.

    Raises:
        ValueError: names, shapes or dtypes that the model does not take, no samples, no timesteps,
            different numbers of samples, NaN or infinity.
    """
    arrays: Arrays = {}
    for name, given in _named_data(specs, data).items():
        # The first dimension of the data is the number of samples. Accept any number of samples,
        # even if the model has a static batch size.
        spec = dataclasses.replace(specs[name], shape=(None, *specs[name].shape[1:]))
        if spec.dtype == "string" and spec.shape == (None, 1):
            given = np.asarray(given, object)
            given = given[:, np.newaxis] if given.ndim == 1 else given
        arrays[name] = convert_input(given, spec)
        if arrays[name].dtype.kind == "f" and not np.isfinite(arrays[name]).all():
            raise ValueError(
                f"Input {name!r} must be finite. Received NaN, infinity, or values that "
                f"{arrays[name].dtype} cannot represent."
            )
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) != 1:
        raise ValueError(f"All inputs need the same number of samples. Received: {counts}.")
    samples = Samples(specs, arrays, first)
    if samples.count == 0:
        raise ValueError("The data contain 0 samples. Give at least one sample.")
    if any(arrays[name].shape[1] == 0 for name in samples.sequences):
        raise ValueError("The data have a time dimension of 0. Give at least one timestep.")
    return samples


def is_whole(value: object) -> bool:
    """Return whether a value is an integer, and not True or False."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _named_data(specs: Mapping[str, TensorSpec], data: TensorLike) -> dict[str, TensorLike]:
    names = ", ".join(repr(name) for name in specs)
    if isinstance(data, str | os.PathLike):
        raise ValueError(
            f"The data must be arrays. Received the path {data}. Read the file with numpy.load."
        )
    if isinstance(data, list | tuple) and len(data) == len(specs) > 1:
        data = dict(zip(specs, data, strict=True))
    if not isinstance(data, Mapping):
        if len(specs) != 1:
            raise ValueError(
                f"The model has {len(specs)} inputs: give arrays by name ({names}), as a dict or a "
                f".npz file. Received: {type(data).__name__}."
            )
        data = {next(iter(specs)): data}
    data = with_file_names(data, specs)
    if set(data) != set(specs):
        received = ", ".join(repr(name) for name in data) or "nothing"
        raise ValueError(
            f"The data's names must be the model's inputs: {names}. Received: {received}."
        )
    return {name: data[name] for name in specs}
