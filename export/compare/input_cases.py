"""Make test inputs for a check from real samples, at several batch sizes and lengths."""

import contextlib
import dataclasses
import itertools
import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_norm.export.compare.element_differences import in_range

BATCH_SIZES = (1, 2, 7)
LARGE_BATCH = 32  # added to BATCH_SIZES if the data have at least 32 samples
MASKED_BATCH = 7
# Larger numbers of rows or timesteps are typing errors, and would fill the memory.
MOST_ROWS, MOST_TIMESTEPS = 2**20, 2**24
ROWS_ALONE = 3
# Number of timesteps that padding adds, and number of padded rows.
PADDING, ROWS_PADDED = 3, 7


@dataclasses.dataclass(frozen=True)
class Case:
    """Test inputs of one call.

    Attributes:
        name: "batch 7, length 12", or "batch 7, length 12, padded left".
        rows: (batch,), index of each row's sample in the user's data.
        length: number of timesteps of the longest input with a dynamic time dimension. None if no
            time dimension is dynamic, or if the data have inputs of different lengths and keep
            them.
        inputs: arrays by input name.
        masked: whether timesteps of the data are masked.
    """

    name: str
    rows: tuple[int, ...]
    length: int | None
    inputs: dict[str, np.ndarray]
    masked: bool = False


@dataclasses.dataclass(frozen=True)
class Companion:
    """Test inputs in which one row of a batch has other neighbor rows, or no neighbor rows.

    Attributes:
        row: index of the row in the original batch.
        how: "among other rows" or "alone"; "" for the original batch itself.
        case: the test inputs. The row has the index `row` in them, or 0 if it is alone.
    """

    row: int
    how: str
    case: Case


@dataclasses.dataclass(frozen=True)
class Samples:
    """Validated real data for a model's inputs.

    Attributes:
        specs: input specs by input name, each with `shape` (None where dynamic) and `dtype`.
        arrays: arrays by input name, in the dtype of their spec, all with equally many samples.
        first: number of the first sample in the user's data.
    """

    specs: Mapping[str, Any]
    arrays: dict[str, np.ndarray]
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
    def timed(self) -> tuple[str, ...]:
        """Return the names of the inputs with a dynamic time dimension (axis 1)."""
        return tuple(n for n, spec in self.specs.items() if spec.shape[1:2] == (None,))

    @property
    def length(self) -> int | None:
        """Return the common number of timesteps of the inputs in `timed`.

        None if `timed` is empty, or if its inputs differ in their numbers of timesteps.
        """
        lengths = {self.arrays[name].shape[1] for name in self.timed}
        return lengths.pop() if len(lengths) == 1 else None

    @property
    def longest(self) -> int:
        """Return the largest number of timesteps of the inputs in `timed`; 0 if it is empty."""
        return max((self.arrays[name].shape[1] for name in self.timed), default=0)

    def take(self, rows: Sequence[int], length: int | None = None) -> dict[str, np.ndarray]:
        """Return the inputs of some samples, cut or repeated in time to `length` timesteps.

        If the inputs differ in length, the longest input gets `length` timesteps. Every shorter
        input is cut or repeated in proportion.

        Args:
            rows: sample numbers; numbers beyond the last sample start over.
            length: number of timesteps; None for the length of the data.
        """
        inputs = {n: np.take(a, rows, axis=0, mode="wrap") for n, a in self.arrays.items()}
        if length is not None:
            for name in self.timed:
                own = self.arrays[name].shape[1]
                steps = range(-(-length * own // self.longest))  # rounded up: at least one
                inputs[name] = np.take(inputs[name], steps, axis=1, mode="wrap")
        return inputs

    def case(self, rows: Sequence[int], length: int | None = None) -> Case:
        """Make named test inputs of some samples; arguments as for `take`."""
        rows = [int(row) % self.count for row in rows]
        length = self.length if length is None else length
        name = f"batch {len(rows)}" + ("" if length is None else f", length {length}")
        numbers = tuple(self.first + row for row in rows)
        return Case(name, numbers, length, self.take(rows, length))

    def batches(self, size: int) -> Iterator[tuple[slice, Case]]:
        """Yield all samples in batches of at most `size` rows, each with the slice of its rows.

        If the model has a static batch size, that size replaces `size`, and the first samples fill
        up the last batch.
        """
        size = self.batch or size
        for start in range(0, self.count, size):
            rows = slice(start, min(start + size, self.count))
            yield rows, self.case(range(start, start + size if self.batch else rows.stop))


def read_samples(specs: Mapping[str, Any], data: Any, first: int = 0) -> Samples:
    """Validate data against a model's inputs.

    Args:
        specs: input specs by input name.
        data: arrays (samples, ...) by input name; or a list or tuple of arrays in the inputs'
            order; or one array for a model with one input.
        first: number of the first sample.

    Raises:
        ValueError: names, shapes or dtypes that the model does not take, no samples, no timesteps,
            different numbers of samples, NaN or infinity.
    """
    arrays = _named_arrays(specs, data)
    for name, array in arrays.items():
        _require_shape(name, array, specs[name].shape)
        arrays[name] = _converted(name, array, specs[name].dtype)
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) != 1:
        raise ValueError(f"All inputs need the same number of samples. Received: {counts}.")
    samples = Samples(specs, arrays, first)
    if samples.count == 0:
        raise ValueError("The data hold no samples. Give at least one.")
    if any(arrays[name].shape[1] == 0 for name in samples.timed):
        raise ValueError("The data have a time dimension of 0. Give at least one timestep.")
    return samples


def make_cases(
    samples: Samples, batch_sizes: Sequence[int] | None, lengths: Sequence[int] | None
) -> tuple[Case, ...]:
    """Make test inputs for every batch size at every length.

    Args:
        samples: the validated data.
        batch_sizes: batch sizes; samples are repeated if the data have fewer. None for 1, 2 and 7,
            and also 32 if the data have at least 32 samples.
        lengths: numbers of timesteps. None for 1, and for 0.5, 1 and 1.5 times the data's length.
            If the inputs differ in length, the longest input gets this number of timesteps. Each
            shorter input is cut or repeated in proportion.

    Raises:
        ValueError: a size or length is below 1, or the model's static shape forbids it.
    """
    cases, start = [], 0
    steps = _lengths(samples, lengths)
    for size, length in itertools.product(_batch_sizes(samples, batch_sizes), steps):
        # Each batch starts after the previous batch's last sample, so that the samples differ.
        cases.append(samples.case(range(start, start + size), length))
        start += size
    return tuple(cases)


def masked_cases(
    samples: Samples, fills: Mapping[str, float], batch: int = MASKED_BATCH
) -> tuple[Case, ...]:
    """Make test inputs with masked timesteps: padded, with gaps, and with a fully masked row.

    Args:
        samples: the validated data.
        fills: the value that masks a timestep, by input name; any other input is not masked.
        batch: number of rows; a model's static batch size replaces it.

    Returns:
        Test inputs for each entry of `MASKS` that masks a timestep; empty if `fills` is empty.
    """
    plain = samples.case(range(samples.batch or batch))
    cases = []
    for name, masked in MASKS.items():
        inputs = {n: array.copy() for n, array in plain.inputs.items()}
        masks = {n: masked(*inputs[n].shape[:2]) for n in fills}
        for input_name, fill in fills.items():
            inputs[input_name][masks[input_name]] = fill
        if any(mask.any() for mask in masks.values()):
            cases.append(Case(f"{plain.name}, {name}", plain.rows, plain.length, inputs, True))
    return tuple(cases)


def edge_cases(samples: Samples) -> tuple[Case, ...]:
    """Make test inputs of two samples, with the first sample replaced by an edge case.

    Edge cases are rows that sensors and padding produce: see `EDGES`. Integers come from the data,
    because the model may not accept any other integer.

    Args:
        samples: the validated data.

    Returns:
        Test inputs for each entry of `EDGES`, without repeated inputs.
    """
    plain = samples.case(range(samples.batch or 2))
    cases: list[Case] = []
    for name, edge in EDGES.items():
        inputs = {n: array.copy() for n, array in plain.inputs.items()}
        for input_name, array in samples.arrays.items():
            inputs[input_name][0] = edge(array)
        known = (case.inputs for case in (plain, *cases))
        if not any(all(np.array_equal(a, inputs[n]) for n, a in one.items()) for one in known):
            cases.append(Case(f"{plain.name}, row 0 {name}", plain.rows, plain.length, inputs))
    return tuple(cases)


def is_edge(name: str) -> bool:
    """Return whether `edge_cases` made the test inputs of this name."""
    return any(name.endswith(f", row 0 {edge}") for edge in EDGES)


def companions(samples: Samples, batch: int) -> tuple[Companion, ...]:
    """Make test inputs that show whether a row's output depends on the other rows of its batch.

    Args:
        samples: the validated data.
        batch: number of rows of the original batch.

    Returns:
        The original batch; then up to `ROWS_ALONE` of its rows among other neighbor rows and, if
        the batch dimension is dynamic, alone. Only the original batch if it has a single row.
    """
    asked = [Companion(0, "", samples.case(range(batch)))]
    if batch == 1:
        return tuple(asked)
    for row in sorted({*np.linspace(0, batch - 1, min(batch, ROWS_ALONE)).astype(int).tolist()}):
        # Shifting every other row by one sample changes the neighbor rows, not only their order.
        others = samples.case([r if r == row else r + 1 for r in range(batch)])
        asked.append(Companion(row, "among other rows", others))
        if samples.batch is None:
            asked.append(Companion(row, "alone", samples.case([row])))
    return tuple(asked)


def padded(samples: Samples, fills: Mapping[str, float]) -> dict[str, dict[str, np.ndarray]]:
    """Return the inputs of some samples without padding and with masked timesteps added.

    Args:
        samples: the validated data.
        fills: the value that masks a timestep, by input name.

    Returns:
        Arrays by input name for each side: "" (no padding), "right" and "left".
    """
    whole = samples.case(range(samples.batch or ROWS_PADDED)).inputs
    found = {"": whole}
    for side, widths in (("right", (0, PADDING)), ("left", (PADDING, 0))):
        found[side] = dict(whole)
        for name, fill in fills.items():
            around = [(0, 0), widths, *[(0, 0)] * (whole[name].ndim - 2)]
            found[side][name] = np.pad(whole[name], around, constant_values=fill)
    return found


def _ends(rows: int, steps: int) -> np.ndarray:
    """Return a number of masked steps for each row, (rows, 1): increasing, and below `steps`."""
    return ((np.arange(rows) + 1) * steps // (rows + 1))[:, None]


# Functions from (rows, steps) to a boolean array of that shape: True where a step is masked.
MASKS: dict[str, Callable[[int, int], np.ndarray]] = {
    "padded right": lambda rows, steps: np.arange(steps)[::-1] < _ends(rows, steps),
    "padded left": lambda rows, steps: np.arange(steps) < _ends(rows, steps),
    "with gaps": lambda rows, steps: (np.arange(steps) + np.arange(rows)[:, None]) % 3 == 1,
    "row 0 masked": lambda rows, steps: np.repeat(np.arange(rows) == 0, steps).reshape(rows, steps),
}


def _zeros(array: np.ndarray) -> Any:
    """Return 0, or the first sample if the array holds integers without a 0."""
    return 0 if array.dtype.kind == "f" or (array == 0).any() else array[0]


def _constant(array: np.ndarray) -> Any:
    """Return one value: the mean of floats, or the median of integers."""
    if array.dtype.kind == "f":
        return array.mean(dtype="float64")
    middle = array.size // 2
    return np.partition(array, middle, axis=None)[middle]


# Functions from an array (samples, ...) to an edge case of a row. Real data hold such rows:
# silence, a sensor that repeats one value, and extreme values.
EDGES: dict[str, Callable[[np.ndarray], Any]] = {
    "zeros": _zeros,
    "constant": _constant,
    "smallest values": lambda array: array.min(axis=0),
    "largest values": lambda array: array.max(axis=0),
}


def _named_arrays(specs: Mapping[str, Any], data: Any) -> dict[str, np.ndarray]:
    names = ", ".join(repr(name) for name in specs)
    if isinstance(data, str | os.PathLike):
        raise ValueError(f"Give arrays, as numpy.load makes of a file. Received the path {data}.")
    if isinstance(data, list | tuple) and len(data) == len(specs) > 1:
        data = dict(zip(specs, data, strict=True))
    if not isinstance(data, Mapping):
        if len(specs) != 1:
            raise ValueError(
                f"The model has {len(specs)} inputs: give a dict of arrays by name ({names}). "
                f"Received: {type(data).__name__}."
            )
        data = {next(iter(specs)): data}
    if set(data) != set(specs):
        received = ", ".join(repr(name) for name in data) or "nothing"
        raise ValueError(
            f"The data's names must be the model's inputs: {names}. Received: {received}."
        )
    return {name: _as_array(name, data[name]) for name in specs}


def _as_array(name: str, data: Any) -> np.ndarray:
    with contextlib.suppress(ValueError):  # nested lists of different lengths, a symbolic tensor
        array = np.asarray(data)
        if array.dtype.kind != "O" or isinstance(data, np.ndarray):
            return array
    raise ValueError(
        f"Input {name!r} takes an array of numbers, (samples, ...). Received a "
        f"{type(data).__name__} that is none. Pad sequences of different lengths first."
    )


def _require_shape(name: str, array: np.ndarray, shape: tuple[int | None, ...]) -> None:
    # The first dimension is the number of samples, so it need not match a static batch size.
    expected = (None, *shape[1:])
    fits = array.ndim == len(expected) and all(
        e is None or e == a for e, a in zip(expected, array.shape, strict=True)
    )
    if not fits:
        wanted = str(expected).replace("None", "any")
        raise ValueError(
            f"Input {name!r} takes arrays (samples, ...) of shape {wanted}. "
            f"Received shape {array.shape}."
        )


def _converted(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    try:
        # NumPy has no bfloat16; runners take float32 instead.
        target = np.dtype("float32" if dtype == "bfloat16" else dtype)
        fits = np.can_cast(array.dtype, target, casting="same_kind")
    except TypeError:
        raise ValueError(
            f"Input {name!r} has dtype {dtype}, and only numbers can be given."
        ) from None
    if not fits:
        raise ValueError(f"Input {name!r} takes {dtype}. Received {array.dtype}.")
    if not in_range(array, target):
        raise ValueError(
            f"Input {name!r} takes {dtype}. Received values up to {np.abs(array).max()}, which it "
            "cannot hold."
        )
    with np.errstate(over="ignore"):
        converted = array.astype(target)
    if converted.dtype.kind == "f" and not np.isfinite(converted).all():
        raise ValueError(
            f"Input {name!r} holds NaN, infinity or what {target} cannot hold. Give finite data."
        )
    return converted


def _batch_sizes(samples: Samples, sizes: Sequence[int] | None) -> tuple[int, ...]:
    if sizes is not None:
        _require_positive("batch_sizes", sizes, MOST_ROWS)
    if samples.batch is not None:
        if sizes is not None and set(sizes) != {samples.batch}:
            raise ValueError(
                f"The model takes batches of {samples.batch} only. "
                f"Received: batch_sizes={tuple(sizes)}."
            )
        sizes = (samples.batch,)
    if sizes is None:
        return BATCH_SIZES + (LARGE_BATCH,) * (samples.count >= LARGE_BATCH)
    return tuple(sizes)


def _lengths(samples: Samples, lengths: Sequence[int] | None) -> tuple[int | None, ...]:
    own = samples.longest
    if lengths is None:
        half = (own + 1) // 2
        lengths = sorted({1, half, own, own + half}) if samples.timed else [own]
    elif samples.timed:
        _require_positive("lengths", lengths, MOST_TIMESTEPS)
    else:
        raise ValueError(
            f"lengths needs a model with a dynamic time dimension. Received: lengths={lengths!r}."
        )
    # `samples.length` is None if the inputs differ in length: then the data keep their lengths.
    return tuple(samples.length if length == own else length for length in lengths)


def _require_positive(name: str, given: Any, most: int) -> None:
    values = list(given) if isinstance(given, Iterable) else []
    if not values or not all(is_whole(n) and int(n) > 0 for n in values):
        raise ValueError(f"{name} takes a list of whole numbers from 1 on. Received: {given!r}.")
    if max(values) > most:
        raise ValueError(f"{name} takes numbers up to {most}. Received: {max(values)}.")


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer, and not True or False."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
