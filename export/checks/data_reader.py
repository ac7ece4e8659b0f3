"""Read the user's data one part at a time: arrays, files, or datasets of batches."""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np

from keras_norm.export.checks.array_files import read_arrays, read_inputs
from keras_norm.export.compare.samples import Samples, read_samples
from keras_norm.export.signature import TensorSpec
from keras_norm.typing import Array, Arrays, Nest, TensorLike

# Maximum number of samples in a part of the data. A part fits in memory, and training mode runs a
# part as one batch. For a batch of 1,024 rows, the standard error of the mean is 0.03 standard
# deviations.
PART = 1024
# Minimum number of samples, from the beginning of the data, that the test inputs are made of. There
# are fewer samples if the data end earlier, or if the shape of the samples changes.
FIRST = 32

# The user's data or labels: arrays, files, a `tf.data.Dataset` or a `keras.utils.PyDataset`; see
# `Data`.
DataLike: TypeAlias = Any
# Labels with one row for each sample: a dict by output name, a tuple in the order of the outputs,
# or an array for a single output.
Labels: TypeAlias = Arrays | tuple[Array, ...] | Array | None


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the user's data, small enough to fit in memory.

    Attributes:
        samples: the inputs.
        labels: arrays by output name, one array for one output, or None.
        source: name of the data file, if samples are numbered in each file; "" if they are numbered
            over all data.
    """

    samples: Samples
    labels: Labels = None
    source: str = ""


class Data:
    """Iterate over the user's samples in parts; each iteration reads the data again.

    Each batch of a dataset is one part. Arrays, files and batches with more than `PART` samples are
    split into equal parts.

    Args:
        specs: input specs by input name.
        data: arrays (samples, ...) by input name, or one array for one input; a list of texts for
            one input of texts; a .npz file of arrays by name, a .npy file for one input, or several
            files; or a `tf.data.Dataset` or `keras.utils.PyDataset` of batches x, (x, y) or
            (x, y, weights). The labels are y; the weights are not used.
        labels: labels for data in arrays: arrays by output name, or one array for one output. For
            data in files: one file of labels for each data file.
        ordered: whether the inputs and outputs have an order, as in a Keras model. If not, several
            inputs or outputs must be given by name.

    Raises:
        ValueError: labels are given for a dataset, which has its own; the number of label files
            differs from the number of data files; or the dataset is infinite. Iteration raises the
            errors of `read_samples`.
    """

    def __init__(
        self,
        specs: Mapping[str, TensorSpec],
        data: DataLike,
        labels: DataLike = None,
        *,
        ordered: bool = True,
    ) -> None:
        self.specs, self.data, self.labels = specs, data, labels
        self.ordered = ordered
        self.files = None if _is_texts(specs, data) else _files(data)
        if self.files is not None:
            self.label_files = None if labels is None else _files(labels)
            if labels is not None and len(self.label_files or ()) != len(self.files):
                received = type(labels).__name__
                if self.label_files is not None:
                    received = f"{len(self.label_files)} file(s)"
                raise ValueError(
                    f"Give one file of labels for each of the {len(self.files)} files of data. "
                    f"Received: {received}."
                )
        elif _is_batched(data):
            if labels is not None:
                raise ValueError(
                    f"The labels of a {type(data).__name__} are the y of its batches (x, y). "
                    "Do not give labels=."
                )
            if _is_infinite(data):
                raise ValueError(
                    f"The {type(data).__name__} is infinite. Limit it, for example by take(n)."
                )
        elif isinstance(labels, str | os.PathLike):
            raise ValueError(
                f"labels is the path {labels}, but the data are arrays. Give labels as arrays: "
                "numpy.load(path)."
            )

    def __iter__(self) -> Iterator[Part]:
        count = 0
        for source, x, y in self._read():
            first = 0 if source else count
            if not self.ordered and len(self.specs) > 1:
                _require_names("inputs", x)
            samples = read_samples(self.specs, x, first)
            labels = _read_labels(y, samples.count)
            if not self.ordered:
                _require_names("outputs", labels)
            for part in _split(samples, labels, source):
                count += part.samples.count
                yield part

    def first(self) -> tuple[Samples, Part]:
        """Return the samples to make test inputs of, and the first part of the data.

        The samples come from the first parts of the data. There are at least `FIRST` samples,
        unless the data end or the shape changes.
        """
        found: list[Part] = []
        for part in self:
            if found and _row_shapes(part) != _row_shapes(found[0]):
                break
            found.append(part)
            if sum(part.samples.count for part in found) >= FIRST:
                break
        if not found:
            raise ValueError("The data have no samples. Give at least one sample.")
        joined = {
            name: np.concatenate([part.samples.arrays[name] for part in found])
            for name in self.specs
        }
        return dataclasses.replace(found[0].samples, arrays=joined), found[0]

    def _read(self) -> Iterator[tuple[str, DataLike, DataLike]]:
        if self.files is not None:
            several = len(self.files) > 1
            names = [file.name for file in self.files]
            for k, file in enumerate(self.files):
                y = None if self.label_files is None else read_arrays(self.label_files[k])
                # If two files have the same name, the report shows their whole paths.
                name = file.name if names.count(file.name) == 1 else str(file)
                yield name if several else "", read_inputs(file, self.specs), y
        elif _is_batched(self.data):
            for batch in _batches(self.data):
                x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
                yield "", x, y
        else:
            yield "", self.data, self.labels


def _is_texts(specs: Mapping[str, TensorSpec], data: DataLike) -> bool:
    """Return whether a list of str has the texts of a model's only input, and not paths of files.

    A list whose elements all end with .npz or .npy has paths.
    """
    return (
        [spec.dtype for spec in specs.values()] == ["string"]
        and isinstance(data, list | tuple)
        and all(isinstance(text, str) for text in data)
        and not all(text.endswith((".npz", ".npy")) for text in data)
    )


def _files(data: DataLike) -> list[pathlib.Path] | None:
    """Return the paths if the data are one path or a list of paths, else None."""
    if isinstance(data, str | os.PathLike):
        return [pathlib.Path(data)]
    if isinstance(data, Sequence) and data and all(isinstance(d, str | os.PathLike) for d in data):
        return [pathlib.Path(path) for path in data]
    return None


def _is_infinite(data: DataLike) -> bool:
    if isinstance(data, keras.utils.PyDataset):
        return data.num_batches is None
    return bool(data.cardinality() == -1)  # -1 is tf.data.INFINITE_CARDINALITY


def _is_batched(data: DataLike) -> bool:
    return isinstance(data, keras.utils.PyDataset) or hasattr(data, "as_numpy_iterator")


def _batches(data: DataLike) -> Iterator[Nest]:
    if isinstance(data, keras.utils.PyDataset):
        return (data[k] for k in range(data.num_batches))
    return iter(data.as_numpy_iterator())


def _split(samples: Samples, labels: Labels, source: str) -> Iterator[Part]:
    """Split samples and labels into parts of equal size, small enough to fit in memory.

    A part has at most `PART` samples. The parts are equal because a small last part would have
    noisy batch statistics.
    """
    parts = -(-samples.count // PART)
    bounds = [samples.count * k // parts for k in range(parts + 1)]
    for start, end in itertools.pairwise(bounds):
        arrays = {name: array[start:end] for name, array in samples.arrays.items()}
        cut = dataclasses.replace(samples, arrays=arrays, first=samples.first + start)
        yield Part(cut, _select_rows(labels, slice(start, end)), source)


def _require_names(what: str, arrays: DataLike) -> None:
    if isinstance(arrays, list | tuple):
        raise ValueError(
            f"The {what} of a file have no order. Give a dict of arrays by name. "
            f"Received: {type(arrays).__name__}."
        )


def _read_labels(labels: DataLike, count: int) -> Labels:
    """Convert labels to arrays and check that each array has one row for each sample."""
    if labels is None:
        return None
    if isinstance(labels, Mapping):
        return {name: _to_label_array(array, count) for name, array in labels.items()}
    if _has_array_per_output(labels, count):
        return tuple(_to_label_array(array, count) for array in labels)
    return _to_label_array(labels, count)


def _to_label_array(labels: TensorLike, count: int) -> Array:
    """Convert the labels of one output to an array, and check its number of rows."""
    array = np.asarray(labels)
    if array.shape[:1] != (count,):
        raise ValueError(
            f"Labels need one row for each of the {count} samples. Received shape {array.shape}."
        )
    return array


def _has_array_per_output(labels: DataLike, count: int) -> bool:
    """Check whether labels are a list with one array for each output, as in `Model.fit`.

    A list of `count` entries could also hold the rows of a single output, so this function returns
    False for it. A tuple has no rows: datasets give the labels of several outputs as a tuple.
    """
    return (
        isinstance(labels, list | tuple)
        and (isinstance(labels, tuple) or len(labels) != count)
        and all(np.ndim(array) > 0 and len(array) == count for array in labels)
    )


def _select_rows(labels: Labels, rows: slice) -> Labels:
    cut: Labels = None
    if labels is not None:
        cut = keras.tree.map_structure(lambda y: y[rows], labels)
    return cut


def _row_shapes(part: Part) -> dict[str, tuple[int, ...]]:
    return {name: array.shape[1:] for name, array in part.samples.arrays.items()}
