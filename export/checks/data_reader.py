"""The user's data, a part at a time: arrays, files, or batches that something else reads."""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_norm.export.compare.input_cases import Samples, read_samples
from keras_norm_verify import printable, require_arrays

# Most samples that are held, and run in training mode, at once: their mean is then off by 0.03
# standard deviations.
PART = 1024
# Samples that the cases and the properties are made of, where so many come in parts of one shape.
FIRST = 32

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Part:
    """Some samples.

    Attributes:
        samples: their inputs.
        labels: arrays by output name, one array for one output, or None.
        source: the file that they are counted in; "" where they are counted over all data.
    """

    samples: Samples
    labels: Any = None
    source: str = ""


class Data:
    """All samples in parts, which are read anew each time that it is gone through.

    Batches are taken as they come, and what has more than `PART` samples is cut in equal parts.

    Args:
        specs: input specs by input name.
        data: arrays (samples, ...) by input name, or one array for one input; a .npz file of such
            arrays by name, a .npy file for one input, or several files; or a `tf.data.Dataset` or
            `keras.utils.PyDataset` of batches x, (x, y) or (x, y, weights): the labels are y, and
            no weights are used.
        labels: of arrays: arrays by output name, or one for one output. Of files: as many files.
        ordered: whether inputs and outputs have an order, as a Keras model's have; else several are
            given by name only.

    Raises:
        ValueError: labels beside batches, which have their own; another number of files; batches
            without an end; and, when it is gone through, as `read_samples`.
    """

    def __init__(
        self,
        specs: Mapping[str, Any],
        data: Any,
        labels: Any = None,
        *,
        ordered: bool = True,
    ) -> None:
        self.specs, self.data, self.labels = specs, data, labels
        self.ordered = ordered
        self.files = _files(data)
        if self.files is not None:
            self.of_files = None if labels is None else _files(labels)
            if labels is not None and len(self.of_files or ()) != len(self.files):
                raise ValueError(
                    f"Data of {len(self.files)} files take as many files of labels. Received: "
                    f"{type(labels).__name__ if self.of_files is None else len(self.of_files)}."
                )
        elif _is_batched(data):
            if labels is not None:
                raise ValueError(
                    f"A {type(data).__name__} brings its labels in its batches, (x, y): give no "
                    "labels beside it."
                )
            if _is_endless(data):
                raise ValueError(f"The {type(data).__name__} never ends. Cut it, as by take(n).")

    def __iter__(self) -> Iterator[Part]:
        count = 0
        for source, x, y in self._read():
            first = 0 if source else count
            if not self.ordered and len(self.specs) > 1:
                _require_names("inputs", x)
            samples = read_samples(self.specs, x, first)
            labels = _with_rows(y, samples.count)
            if not self.ordered:
                _require_names("outputs", labels)
            for part in _cut(samples, labels, source):
                count += part.samples.count
                yield part

    def first(self) -> tuple[Samples, Part]:
        """The first samples, as many parts of one shape as make `FIRST`, and the first part."""
        found: list[Part] = []
        for part in self:
            if found and _shapes(part) != _shapes(found[0]):
                break
            found.append(part)
            if sum(part.samples.count for part in found) >= FIRST:
                break
        if not found:
            raise ValueError("The data hold no samples. Give at least one.")
        joined = {
            name: np.concatenate([part.samples.arrays[name] for part in found])
            for name in self.specs
        }
        return dataclasses.replace(found[0].samples, arrays=joined), found[0]

    def _read(self) -> Iterator[tuple[str, Any, Any]]:
        if self.files is not None:
            several = len(self.files) > 1
            names = [file.name for file in self.files]
            for k, file in enumerate(self.files):
                y = None if self.of_files is None else read_arrays(self.of_files[k])
                # Namesakes in two folders need the whole path.
                name = file.name if names.count(file.name) == 1 else str(file)
                yield name if several else "", read_inputs(file, self.specs), y
        elif _is_batched(self.data):
            for batch in _batches(self.data):
                x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
                yield "", x, y
        else:
            yield "", self.data, self.labels


def read_inputs(path: Path, specs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Read a model's inputs from a .npz file, or its one input from a .npy file.

    Args:
        path: the file.
        specs: input specs by input name.

    Raises:
        OSError, ValueError: as `read_arrays`; or one array for several inputs.
    """
    loaded = read_arrays(path)
    if isinstance(loaded, dict):
        return loaded
    if len(specs) > 1:
        names = ", ".join(f"{name}=..." for name in specs)
        raise ValueError(
            f"{path} holds one array, and the model has {len(specs)} inputs. Write a .npz file: "
            f"numpy.savez(file, {names})."
        )
    return dict.fromkeys(specs, loaded)


def read_arrays(path: Path) -> dict[str, np.ndarray] | np.ndarray:
    """Read the arrays of a .npz file by name, or the array of a .npy file; nothing is executed.

    Raises:
        OSError: there is no such file, it is a folder, or it cannot be read.
        ValueError: it is something else, or damaged.
    """
    path = pathlib.Path(path)
    require_arrays(path)
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else dict(loaded)
    # Whatever a damaged archive makes of its parsers; a header may claim what no memory holds.
    except Exception as error:
        raise ValueError(f"{path} cannot be read: {printable(str(error), 200)}") from error


def _files(data: Any) -> list[pathlib.Path] | None:
    """The paths that data are, or None where they are something else."""
    if isinstance(data, str | os.PathLike):
        return [pathlib.Path(data)]
    if isinstance(data, Sequence) and data and all(isinstance(d, str | os.PathLike) for d in data):
        return [pathlib.Path(path) for path in data]
    return None


def _is_endless(data: Any) -> bool:
    if isinstance(data, keras.utils.PyDataset):
        return data.num_batches is None
    return bool(data.cardinality() == -1)  # tf.data.INFINITE_CARDINALITY


def _is_batched(data: Any) -> bool:
    return isinstance(data, keras.utils.PyDataset) or hasattr(data, "as_numpy_iterator")


def _batches(data: Any) -> Iterator[Any]:
    if isinstance(data, keras.utils.PyDataset):
        return (data[k] for k in range(data.num_batches))
    return iter(data.as_numpy_iterator())


def _cut(samples: Samples, labels: Any, source: str) -> Iterator[Part]:
    """Equal parts of at most `PART` samples: a small last one would have statistics of its own."""
    parts = -(-samples.count // PART)
    bounds = [samples.count * k // parts for k in range(parts + 1)]
    for start, end in itertools.pairwise(bounds):
        arrays = {name: array[start:end] for name, array in samples.arrays.items()}
        cut = dataclasses.replace(samples, arrays=arrays, first=samples.first + start)
        yield Part(cut, _rows(labels, slice(start, end)), source)


def _require_names(what: str, arrays: Any) -> None:
    if isinstance(arrays, list | tuple):
        raise ValueError(
            f"A file has its {what} in no order. Give a dict of arrays by name. "
            f"Received: {type(arrays).__name__}."
        )


def _with_rows(labels: Any, count: int) -> Any:
    """Labels as arrays, each with a row for each sample; None where there are none."""
    if labels is None:
        return None
    if isinstance(labels, Mapping):
        return {name: _with_rows(array, count) for name, array in labels.items()}
    if _is_several(labels, count):
        return tuple(_with_rows(array, count) for array in labels)
    array = np.asarray(labels)
    if array.shape[:1] != (count,):
        raise ValueError(
            f"Labels need one row for each of the {count} samples. Received shape {array.shape}."
        )
    return array


def _is_several(labels: Any, count: int) -> bool:
    """Whether they are arrays of as many outputs, as `fit` takes them, and not rows of one.

    As many outputs as samples are told from rows by the tuple that a dataset gives.
    """
    return (
        isinstance(labels, list | tuple)
        and (isinstance(labels, tuple) or len(labels) != count)
        and all(np.ndim(array) > 0 and len(array) == count for array in labels)
    )


def _rows(labels: Any, rows: slice) -> Any:
    return None if labels is None else keras.tree.map_structure(lambda y: y[rows], labels)


def _shapes(part: Part) -> dict[str, tuple[int, ...]]:
    return {name: array.shape[1:] for name, array in part.samples.arrays.items()}
