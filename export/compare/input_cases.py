"""Make test inputs for a check from real samples, at several batch sizes and lengths."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from keras_norm.export.compare.arrays import is_text
from keras_norm.export.compare.samples import Case, Samples, is_whole
from keras_norm.typing import Array, Arrays, TensorLike

BATCH_SIZES = (1, 2, 7)
# Data of at least 32 samples are also tested with a batch of 32 rows.
LARGE_BATCH = 32
MASKED_BATCH = 7
# Largest batch size and largest number of timesteps that a user may give for the test inputs. A
# larger number is a typing error, and would fill the memory.
MAX_ROWS, MAX_TIMESTEPS = 2**20, 2**24
# At most three rows of a batch run again: alone, and in a batch whose other rows have other values.
# The outputs of these rows must not change.
ROWS_WITH_NEIGHBORS = 3
# `pad_samples` adds 3 masked timesteps to each row of a batch. The batch has 7 rows, or the static
# batch size of the model.
PADDING, ROWS_PADDED = 3, 7


def make_cases(
    samples: Samples, batch_sizes: Sequence[int] | None, lengths: Sequence[int] | None
) -> tuple[Case, ...]:
    """Make test inputs for every pair of a batch size and a number of timesteps.

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
        # Each batch takes the samples that follow the previous batch, so that the batches differ.
        cases.append(samples.case(range(start, start + size), length))
        start += size
    return tuple(cases)


def masked_cases(
    samples: Samples, fills: Mapping[str, float], batch: int = MASKED_BATCH
) -> tuple[Case, ...]:
    """Make test inputs with masked timesteps: at the start, at the end, inside, or a whole row.

    Args:
        samples: the validated data.
        fills: the value that masks a timestep, by input name; any other input is not masked.
        batch: number of rows; a model's static batch size replaces it.
    """
    plain = samples.case(range(samples.batch or batch))
    cases = []
    for name, make_mask in MASKS.items():
        inputs = {n: array.copy() for n, array in plain.inputs.items()}
        masks = {n: make_mask(*inputs[n].shape[:2]) for n in fills}
        for input_name, fill in fills.items():
            inputs[input_name][masks[input_name]] = fill
        if any(mask.any() for mask in masks.values()):
            cases.append(Case(f"{plain.name}, {name}", plain.rows, plain.length, inputs, True))
    return tuple(cases)


def edge_cases(samples: Samples) -> tuple[Case, ...]:
    """Make batches whose first row has extreme values, such as zeros; other rows are samples.

    Sensors and padding produce such rows (`EDGE_ROWS`). `EDGE_TEXTS` has the texts. Equal test
    inputs are made only once. An empty text is also alone in a batch. Integers come from the data,
    because the model may not accept any other integer.
    """
    plain = samples.case(range(samples.batch or 2))
    numbers = {n: array for n, array in samples.arrays.items() if not is_text(array)}
    texts = samples.arrays.keys() - numbers.keys()
    rows = {
        **{name: {n: edge(a) for n, a in numbers.items()} for name, edge in EDGE_ROWS.items()},
        **{name: dict.fromkeys(texts, text) for name, text in EDGE_TEXTS.items()},
    }
    cases: list[Case] = []
    for name, row in rows.items():
        inputs = {n: array.copy() for n, array in plain.inputs.items()}
        for input_name, value in row.items():
            inputs[input_name][0] = value
        known = (case.inputs for case in (plain, *cases))
        if not any(all(np.array_equal(a, inputs[n]) for n, a in one.items()) for one in known):
            cases.append(Case(f"{plain.name}, row 0 {name}", plain.rows, plain.length, inputs))
    if texts and samples.batch is None:
        # If all texts of a batch are empty, the batch may have 0 timesteps. Test such a batch too.
        cases.append(without_text(samples.case([0])))
    return tuple(cases)


def without_text(case: Case) -> Case:
    """Return test inputs in which an empty text replaces every text."""
    inputs = {n: np.full_like(a, b"") if is_text(a) else a for n, a in case.inputs.items()}
    return dataclasses.replace(case, name=f"{case.name}, without text", inputs=inputs)


def names_edge_case(name: str) -> bool:
    """Return whether the name of test inputs says that row 0 is extreme, for example zeros only."""
    return any(name.endswith(f", row 0 {edge}") for edge in EDGE_ROWS)


def neighbor_cases(samples: Samples, batch: int) -> list[tuple[int, Case]]:
    """Make test inputs that show whether a row's output depends on the other rows of its batch.

    Returns:
        (0, the original batch); then (row, test inputs) pairs for up to `ROWS_WITH_NEIGHBORS` of
        its rows. In the test inputs, all rows are copies of the row. If the batch dimension is
        dynamic, the row runs alone too. Only the original batch if it has a single row.
    """
    cases = [(0, samples.case(range(batch)))]
    if batch == 1:
        return cases
    for row in sorted({*map(int, np.linspace(0, batch - 1, min(batch, ROWS_WITH_NEIGHBORS)))}):
        # Copies change every statistic of the batch. Another order of the samples would not: it
        # keeps the mean of the batch.
        cases.append((row, samples.case([row] * batch)))
        if samples.batch is None:
            cases.append((row, samples.case([row])))
    return cases


def pad_samples(samples: Samples, fills: Mapping[str, float]) -> dict[str, Arrays]:
    """Return three versions of the same samples: not padded, padded right and padded left.

    The keys of the result are "", "right" and "left". The padding consists of masked timesteps:
    `fills` has the value of each masked input.
    """
    whole = samples.case(range(samples.batch or ROWS_PADDED)).inputs
    padded = {"": whole}
    for side, widths in (("right", (0, PADDING)), ("left", (PADDING, 0))):
        padded[side] = dict(whole)
        for name, fill in fills.items():
            around = [(0, 0), widths, *[(0, 0)] * (whole[name].ndim - 2)]
            padded[side][name] = np.pad(whole[name], around, constant_values=fill)
    return padded


def _mask_widths(rows: int, steps: int) -> Array:
    """Return the number of masked timesteps in each row: few in row 0, many in the last row.

    The shape is (rows, 1). Every number is below `steps`, so that no row is fully masked.
    """
    return ((np.arange(rows) + 1) * steps // (rows + 1))[:, None]


# Functions that make a mask: a boolean array (rows, steps), True where a timestep is masked.
MASKS: dict[str, Callable[[int, int], Array]] = {
    "padded right": lambda rows, steps: np.arange(steps)[::-1] < _mask_widths(rows, steps),
    "padded left": lambda rows, steps: np.arange(steps) < _mask_widths(rows, steps),
    "with gaps": lambda rows, steps: (np.arange(steps) + np.arange(rows)[:, None]) % 3 == 1,
    "row 0 masked": lambda rows, steps: np.repeat(np.arange(rows) == 0, steps).reshape(rows, steps),
}


def _zeros(array: Array) -> TensorLike:
    """Return 0 to fill a row of zeros. For integer data without a 0, return the first sample."""
    return 0 if array.dtype.kind == "f" or (array == 0).any() else array[0]


def _constant(array: Array) -> TensorLike:
    """Return the value that fills a constant row: the mean of floats, the median of integers."""
    if array.dtype.kind == "f":
        return array.mean(dtype="float64")
    middle = array.size // 2
    return np.partition(array, middle, axis=None)[middle]


# Functions that make an extreme sample from an array (samples, ...). Real data have such samples:
# silence, a sensor that repeats one value, and extreme values.
EDGE_ROWS: dict[str, Callable[[Array], TensorLike]] = {
    "zeros": _zeros,
    "constant": _constant,
    "smallest values": lambda array: array.min(axis=0),
    "largest values": lambda array: array.max(axis=0),
}


# Unusual texts that replace the first text of the test inputs.
EDGE_TEXTS = {"without text": b"", "with unknown words": "zzqx Ünbekannt 未知 ☃\t?!".encode()}


def _batch_sizes(samples: Samples, sizes: Sequence[int] | None) -> tuple[int, ...]:
    if sizes is not None:
        _require_positive("batch_sizes", sizes, MAX_ROWS)
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
        lengths = sorted({1, half, own, own + half}) if samples.sequences else [own]
    elif samples.sequences:
        _require_positive("lengths", lengths, MAX_TIMESTEPS)
    else:
        raise ValueError(
            f"lengths needs a model with a dynamic time dimension. Received: lengths={lengths!r}."
        )
    # `samples.length` is None if the model's inputs have different numbers of timesteps. None in
    # the result means: do not cut or repeat any input.
    return tuple(samples.length if length == own else length for length in lengths)


def _require_positive(name: str, received: object, most: int) -> None:
    values = list(received) if isinstance(received, Iterable) else []
    if not values or not all(is_whole(n) and int(n) > 0 for n in values):
        raise ValueError(
            f"{name} must be a list of positive whole numbers. Received: {received!r}."
        )
    if max(values) > most:
        raise ValueError(f"{name} takes numbers up to {most}. Received: {max(values)}.")
