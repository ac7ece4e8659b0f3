"""Check the data for `collect_statistics`, and split the data into batches."""

import contextlib
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_norm.layers.inputs import is_int
from keras_norm.typing import Array, Nest, TensorLike

BATCH = 32


def require_batches(steps: int | None, batch_size: int | None, data: Nest | Iterable[Nest]) -> None:
    """Check `steps`, the number of batches, and `batch_size`, the number of rows in a batch.

    Raises:
        ValueError: one of them is below 1 or not an int, or `steps` is None for endless data.
    """
    if batch_size is not None and not (is_int(batch_size) and batch_size >= 1):
        raise ValueError(
            "batch_size must be the number of rows in a batch, an int of 1 or more, or None for "
            f"{BATCH}. Received: batch_size={batch_size!r}."
        )
    if steps is None:
        if is_endless(data):
            raise ValueError(
                "The data never end. Received: steps=None. Give the number of batches as steps."
            )
    elif not (is_int(steps) and steps >= 1):
        raise ValueError(
            "steps must be the number of batches to use, an int of 1 or more, or None for all "
            f"batches. Received: steps={steps!r}."
        )


def is_endless(data: Nest | Iterable[Nest]) -> bool:
    """Return whether data are a dataset that never ends."""
    if isinstance(data, keras.utils.PyDataset):
        return data.num_batches is None
    # `cardinality` is a method of tf.data.Dataset. It returns -1 for an endless dataset.
    cardinality = getattr(data, "cardinality", None)
    return callable(cardinality) and int(cardinality()) == -1


def batches_of(
    model: keras.Model,
    data: Nest | Iterable[Nest],
    batch_size: int | None = None,
    fixed_size: int | None = None,
) -> Iterator[Nest]:
    """Split the data into batches, and iterate over the model inputs of each batch.

    Batches without samples, which a filtered dataset may have, are skipped.

    Args:
        model: the model to recalibrate.
        data: the `data` of `collect_statistics`.
        batch_size: number of rows in a batch of arrays; None for `fixed_size`, or 32.
        fixed_size: batch size of a stateful model, else None. An incomplete last batch of arrays is
            not used then.

    Raises:
        TypeError: `data` is neither arrays nor an iterable.
        ValueError: the data do not fit.
    """
    takes_list = isinstance(getattr(model, "input", None), list | tuple)
    if isinstance(data, tuple) and not (takes_list and len(data) == len(model.inputs)):
        raise ValueError(
            "data must not be a tuple, because a tuple may be (x, y) or a sequence of batches. "
            f"Received a tuple of length {len(data)}. Give x alone, or a list of batches."
        )
    one_object = isinstance(data, Mapping) or hasattr(data, "__array__")
    list_of_inputs = takes_list and isinstance(data, list | tuple)
    if one_object or (list_of_inputs and all(hasattr(array, "__array__") for array in data)):
        arrays = map_arrays(_as_numpy, data)
        if fixed_size and batch_size not in (None, fixed_size):
            raise ValueError(
                f"The stateful model needs batches of {fixed_size} rows. Received: "
                f"batch_size={batch_size}. Leave batch_size out."
            )
        size, rows = fixed_size or batch_size or BATCH, _require_equal_rows(arrays, "data")
        end = rows // size * size if fixed_size else rows
        for start in range(0, end, size):
            batch = slice(start, start + size)
            yield map_arrays(itemgetter(batch), arrays)
        return
    if hasattr(data, "shape"):
        raise ValueError(
            f"data cannot be split into batches. Received a {type(data).__name__}. Give a padded "
            "tensor, or a list of batches."
        )
    if batch_size is not None:
        raise ValueError(
            "batch_size is for arrays only, because an iterable yields batches. Received: "
            f"batch_size={batch_size} and a {type(data).__name__}. Leave batch_size out."
        )
    for number, batch in enumerate(_iterate_batches(data), start=1):
        if isinstance(batch, list | tuple) and not 1 <= len(batch) <= 3:
            raise ValueError(
                "A batch must be x, (x, y) or (x, y, sample_weight). "
                f"Received a {type(batch).__name__} of length {len(batch)} in batch {number}."
            )
        x = keras.utils.unpack_x_y_sample_weight(batch)[0]
        # Skip a batch without samples: Keras' BatchNormalization would return NaN.
        if _require_equal_rows(x, "x", f" in batch {number}") > 0:
            yield x


def map_arrays(function: Callable[[Any], Any], inputs: Nest) -> Nest:
    """Call a function on every array in nested inputs. An input that is None stays None."""
    return keras.tree.map_structure(lambda a: None if a is None else function(a), inputs)


def _iterate_batches(data: Nest | Iterable[Nest]) -> Iterator[Nest]:
    if isinstance(data, keras.utils.PyDataset) and data.num_batches is not None:
        # `iter(data)` would never end if the PyDataset also returns a batch for an index after its
        # last batch.
        return map(data.__getitem__, range(data.num_batches))
    with contextlib.suppress(TypeError):
        if not isinstance(data, str):
            return iter(data)
    raise TypeError(
        "data must be an array, a dict or list of arrays, or an iterable of batches. "
        f"Received: {reprlib.repr(data)}."
    )


def _as_numpy(data: TensorLike) -> Array:
    if np.ma.isMaskedArray(data):
        raise ValueError(
            "Keras ignores the mask of a NumPy masked array. Received a masked array as data. Fill "
            "it with the mask_value of a Masking layer: array.filled(mask_value)."
        )
    array: Array = np.asarray(data if isinstance(data, np.ndarray) else ops.convert_to_numpy(data))
    if array.dtype.kind == "c":
        raise ValueError(
            f"data must be real numbers. Received dtype {array.dtype}. Give the real and imaginary "
            "parts as two features."
        )
    return array


def _require_equal_rows(inputs: Nest, name: str, where: str = "") -> int:
    """Check that all inputs have equally many rows, and return the number of rows.

    Raises:
        ValueError: an input is not an array of samples, or the numbers of rows differ.
    """
    shapes = {
        name + "".join(f"[{key!r}]" for key in path): tuple(np.shape(array))
        for path, array in keras.tree.flatten_with_path(inputs)
        if array is not None
    }
    for path, shape in (shapes or {name: ()}).items():
        if not shape or 0 in shape[1:]:
            raise ValueError(
                f"Every input must be an array of shape (samples, ...). Received{where}: "
                f"{path} of shape {shape}. Give NumPy arrays or tensors that are not empty."
            )
    rows = {path: shape[0] for path, shape in shapes.items()}
    if len(set(rows.values())) > 1:
        found = ", ".join(f"{n} rows in {path}" for path, n in rows.items())
        raise ValueError(
            f"The inputs have different numbers of rows. Received{where}: {found}. Give every "
            "input one row for each sample."
        )
    return int(next(iter(rows.values())))
