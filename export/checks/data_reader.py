"""Read the user's data one part at a time: arrays, files, or datasets of batches."""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import keras
import numpy as np

from keras_norm.export.compare.labels import Labels
from keras_norm.export.compare.samples import Samples, read_samples
from keras_norm.export.input_names import TensorSpec
from keras_norm.recalibration.batches import is_endless
from keras_norm.typing import Array, Arrays, Nest
from keras_norm_verify.files import require_arrays
from keras_norm_verify.printable import printable

# The check reads the data in parts of at most 1,024 samples, which fit in memory. Training mode
# runs a part as one batch, and small batches have noisy statistics: the mean of 1,024 samples has a
# standard error of 0.03 standard deviations.
PART = 1024
# The test inputs are made from the beginning of the data, from at least 32 samples. If the data end
# earlier, or if the shape of the samples changes, the test inputs are made from fewer samples.
FIRST = 32

# The user's data or labels: arrays, files, a `tf.data.Dataset` or a `keras.utils.PyDataset`; see
# `Data`.
DataLike: TypeAlias = Any


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the user's data, small enough to fit in memory.

    Attributes:
        samples: the inputs.
        labels: arrays by name or position of the output; None without labels.
        source: name of the data file, if samples are numbered in each file; "" if they are numbered
            over all data.
    """

    samples: Samples
    labels: Labels | None = None
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
        self.files = None if _is_texts(specs, data) else _read_paths(data)
        self.label_files = None if self.files is None else _read_paths(labels)
        if self.files is not None and labels is not None:
            received = type(labels).__name__
            if self.label_files is not None:
                received = f"{len(self.label_files)} file(s)"
            if len(self.label_files or ()) != len(self.files):
                raise ValueError(
                    f"Give one file of labels for each of the {len(self.files)} files of data. "
                    f"Received: {received}."
                )
        elif _is_dataset(data):
            name = type(data).__name__
            if labels is not None:
                raise ValueError(
                    f"The labels of a {name} are the y of its batches (x, y). Do not give labels=."
                )
            if is_endless(data):
                raise ValueError(f"The {name} is infinite. Limit it, for example by take(n).")
        elif isinstance(labels, str | os.PathLike):
            raise ValueError(
                f"labels is the path {labels}, but the data are arrays. Give labels as arrays: "
                "numpy.load(path)."
            )

    def __iter__(self) -> Iterator[Part]:
        count = 0
        for source, x, y in self._read():
            if not self.ordered:
                _require_names("inputs", isinstance(x, list | tuple) and len(self.specs) > 1)
            try:
                samples = read_samples(self.specs, x, first=0 if source else count)
                labels = _read_labels(y, samples.count)
            except ValueError as error:
                if source:
                    error.add_note(f"The error is about the data of {source}.")
                raise
            if not self.ordered:
                _require_names("outputs", labels is not None and len(labels) > 1 and 0 in labels)
            for part in _split(samples, labels, source):
                count += part.samples.count
                yield part

    def first(self) -> tuple[Samples, Part]:
        """Return two values: the samples for the test inputs, and the first part of the data.

        The samples come from the first parts of the data. There are at least `FIRST` samples,
        unless the data end or the shape changes.
        """
        parts = iter(self)
        first = next(parts, None)
        if first is None:
            raise ValueError("The data have no samples. Give at least one sample.")
        samples = first.samples
        while samples.count < FIRST and (part := next(parts, None)) is not None:
            added = part.samples.arrays
            if any(added[name].shape[1:] != a.shape[1:] for name, a in samples.arrays.items()):
                break
            joined = {n: np.concatenate([a, added[n]]) for n, a in samples.arrays.items()}
            samples = dataclasses.replace(samples, arrays=joined)
        return samples, first

    def _read(self) -> Iterator[tuple[str, DataLike, DataLike]]:
        """Yield (file name, inputs, labels) for each file or batch, or once for arrays.

        The file name is "" if the data are not several files.
        """
        if self.files is not None:
            names = [file.name for file in self.files]
            for k, file in enumerate(self.files):
                y = None if self.label_files is None else read_arrays(self.label_files[k])
                # If two files have the same name, the report shows their whole paths.
                name = file.name if names.count(file.name) == 1 else str(file)
                yield name if len(names) > 1 else "", read_arrays(file), y
        elif _is_dataset(self.data):
            for batch in _read_batches(self.data):
                x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
                yield "", x, y
        else:
            yield "", self.data, self.labels


def read_arrays(path: str | os.PathLike[str]) -> Arrays | Array:
    """Read the arrays of a .npz file by name, or the array of a .npy file.

    Pickled objects are refused, so reading a file executes no code from it.

    Raises:
        OSError: the file does not exist, is a directory, or cannot be read.
        ValueError: the file is not a .npz or .npy file, or it is damaged.
    """
    path = pathlib.Path(path)
    require_arrays(path)
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else dict(loaded)
    # Catch every error: a damaged file may raise any error, such as MemoryError for a wrong header.
    except Exception as error:
        reason = printable(str(error), 200)
        if "Object arrays" in reason:
            reason += ". If the array has texts, save it with the dtype str: texts.astype(str)."
        raise ValueError(f"{path} cannot be read: {reason}") from error


def _is_texts(specs: Mapping[str, TensorSpec], data: DataLike) -> bool:
    """Return whether data are a list of texts, and the model has one input, which takes texts.

    A list whose elements all end with .npz or .npy has file paths, not texts.
    """
    return (
        [spec.dtype for spec in specs.values()] == ["string"]
        and isinstance(data, list | tuple)
        and all(isinstance(text, str) for text in data)
        and not all(text.endswith((".npz", ".npy")) for text in data)
    )


def _read_paths(data: DataLike) -> list[pathlib.Path] | None:
    """Return the paths if the data are one path or a list of paths, else None."""
    paths = [data] if isinstance(data, str | os.PathLike) else data
    is_list = isinstance(paths, list | tuple) and bool(paths)
    if not is_list or not all(isinstance(path, str | os.PathLike) for path in paths):
        return None
    return [pathlib.Path(path) for path in paths]


def _is_dataset(data: DataLike) -> bool:
    return isinstance(data, keras.utils.PyDataset) or hasattr(data, "as_numpy_iterator")


def _read_batches(data: DataLike) -> Iterator[Nest]:
    if isinstance(data, keras.utils.PyDataset):
        return (data[k] for k in range(data.num_batches))
    return iter(data.as_numpy_iterator())


def _split(samples: Samples, labels: Labels | None, source: str) -> Iterator[Part]:
    """Split samples and labels into parts of equal size, small enough to fit in memory.

    A part has at most `PART` samples. The parts are equal because a small last part would have
    noisy batch statistics.
    """
    parts = -(-samples.count // PART)
    bounds = [samples.count * k // parts for k in range(parts + 1)]
    for start, end in itertools.pairwise(bounds):
        arrays = {name: array[start:end] for name, array in samples.arrays.items()}
        cut = dataclasses.replace(samples, arrays=arrays, first=samples.first + start)
        rows = None if labels is None else {name: y[start:end] for name, y in labels.items()}
        yield Part(cut, rows, source)


def _require_names(what: str, have_no_names: bool) -> None:
    if have_no_names:
        raise ValueError(
            f"The {what} of an exported file have no order, so a list does not fit. "
            "Give a dict of arrays by name."
        )


def _read_labels(labels: DataLike, count: int) -> Labels | None:
    """Convert labels to arrays, and check that each array has one row for each sample.

    A list has one array for each output, as in `Model.fit`, if each element has a row for each
    sample. A list of `count` elements has the rows of one output. A tuple has no rows: datasets
    give the labels of several outputs as a tuple.
    """
    if labels is None:
        return None
    if not isinstance(labels, Mapping):
        is_list = isinstance(labels, tuple) or (isinstance(labels, list) and len(labels) != count)
        if not is_list or any(np.ndim(y) == 0 or len(y) != count for y in labels):
            labels = [labels]
        labels = dict(enumerate(labels))
    arrays = {name: np.asarray(array) for name, array in labels.items()}
    for array in arrays.values():
        if array.shape[:1] != (count,):
            raise ValueError(
                f"Labels need one row for each of the {count} samples. "
                f"Received shape {array.shape}."
            )
    return arrays
