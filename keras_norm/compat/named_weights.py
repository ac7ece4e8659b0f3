"""Assign the weights of another library to variables of Keras layers, by name: all or none."""

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import keras
import numpy as np

from keras_norm.compat.weight_files import read_weights
from keras_norm.typing import Array, Tensor, TensorLike

# A dict or nested dicts, name -> weight; or the path of a file of weights.
Weights: TypeAlias = Mapping[str, TensorLike] | str | os.PathLike[str]
Sizes: TypeAlias = tuple[int, ...]
LISTED = 8  # maximum number of names in an error message
FLOATS = ("float64", "float32", "float16", "bfloat16")
# Dtypes of quantized weights, such as float8_e4m3fn.
QUANTIZED_DTYPE = re.compile(r"q?u?int|bool|float")


@dataclasses.dataclass(frozen=True)
class Assignment:
    """A variable of a Keras layer, and the weights of another library that determine its value.

    Args:
        variable: the variable.
        entries: the shape of each weight of the other library, by its name. It may be empty.
        value: a function of the entries, as arrays in the order of `entries`.
    """

    variable: keras.Variable
    entries: Mapping[str, Sizes]
    value: Callable[..., Array] = lambda entry: entry

    @classmethod
    def of_entry(
        cls, variable: keras.Variable, name: str, value: Callable[..., Array] = lambda entry: entry
    ) -> "Assignment":
        """Create an assignment from one weight, which has the shape of the variable."""
        return cls(variable, {name: tuple(variable.shape)}, value)

    @classmethod
    def zeros(cls, variable: keras.Variable) -> "Assignment":
        """Create an assignment of zeros to a variable that the other library does not have."""
        return cls(variable, {}, lambda: np.zeros(variable.shape))


def reorder(weights: Array, order: Sequence[int], axis: int = 0) -> Array:
    """Reorder the gates in a weight from another library's order to Keras' order.

    ::

        block k of the result = block order[k] of the weight

    Args:
        weights: array with the gates side by side along `axis`, in blocks of equal size.
        order: index of the other library's gate for each gate of Keras.
        axis: axis of the gates.

    Example:
        >>> reorder(np.array([1.0, 1.0, 2.0, 2.0]), (1, 0))
        array([2., 2., 1., 1.])
    """
    blocks = np.split(weights, len(order), axis)
    return np.concatenate([blocks[k] for k in order], axis)


def named_entries(weights: Weights, separator: str, prefix: str = "") -> dict[str, TensorLike]:
    """Return all weights in one flat dict by name, from nested dicts or from a file.

    Args:
        weights: a dict of arrays or tensors, which may be nested, or a .safetensors or .npz file.
        separator: text between the names of nested dicts, such as "." or "/".
        prefix: return only the entries whose names begin with this text.

    Raises:
        TypeError: `weights` is neither a dict nor a path.
        ValueError: the file cannot be read without pickle (see `read_weights`), two entries have
            one name, or no name begins with the prefix.

    Example:
        >>> named_entries({"lstm": {"bias": 1.0}, "head": {"bias": 2.0}}, "/", "lstm/")
        {'lstm/bias': 1.0}
    """
    if isinstance(weights, str | os.PathLike):
        weights = read_weights(weights)
    if not isinstance(weights, Mapping):
        raise TypeError(
            "weights must be a dict of arrays, or the path of a .safetensors or .npz file. "
            f"Received: {type(weights).__name__}."
        )
    entries = unique_entries(_flatten(weights, separator))
    chosen = {name: entry for name, entry in entries.items() if name.startswith(prefix)}
    if prefix and not chosen:
        raise ValueError(
            f"No entry begins with the prefix '{prefix}'. Received the entries: "
            f"{_listed(list(entries))}."
        )
    return chosen


def _flatten(weights: Mapping[str, TensorLike], separator: str) -> Iterator[tuple[str, TensorLike]]:
    for name, value in weights.items():
        if isinstance(value, Mapping):
            for key, entry in _flatten(value, separator):
                yield f"{name}{separator}{key}", entry
        else:
            yield str(name), value


def unique_entries(pairs: Iterable[tuple[str, TensorLike]]) -> dict[str, TensorLike]:
    """Make a dict of (name, weight) pairs; raise a ValueError if a name occurs twice.

    Raises:
        ValueError: two entries have one name.
    """
    entries: dict[str, TensorLike] = {}
    for name, entry in pairs:
        if name in entries:
            raise ValueError(
                f"Two entries of the weights have the name '{name}', for example one in a nested "
                "dict, and one with the whole name as its key. Remove one of the two entries."
            )
        entries[name] = entry
    return entries


def assign_weights(
    assignments: Sequence[Assignment],
    entries: Mapping[str, TensorLike],
    source: str,
    ignored: Iterable[str] = (),
) -> None:
    """Assign weights to all variables, or to no variable if any weight does not fit.

    Args:
        assignments: the variables and the names of their entries.
        entries: arrays or tensors by name, as `named_entries` returns them.
        source: the origin of the weights in messages, such as "PyTorch".
        ignored: names of entries that no variable needs.

    Raises:
        ValueError: an entry is missing, is used by no variable, or has another shape; an entry has
            no floating-point numbers, as the weights of a quantized model; a value is not finite in
            the dtype of its variable; two assignments have one variable. All variables keep their
            values.
    """
    shapes = {name: shape for a in assignments for name, shape in a.entries.items()}
    missing = [name for name in shapes if name not in entries]
    additional = [name for name in entries if name not in {*shapes, *ignored}]
    if missing or additional:
        raise ValueError(_describe_names(missing, additional, source))
    _require_separate_layers(assignments)
    for assignment in assignments:
        for name, shape in assignment.entries.items():
            _require_floats(name, entries[name], assignment.variable)
            received = tuple(np.shape(entries[name]))
            _require_shape(name, shape, received, assignment.variable, source)
    values = [_compute_value(assignment, entries) for assignment in assignments]
    for assignment, value in zip(assignments, values, strict=True):
        assignment.variable.assign(value)


def _compute_value(assignment: Assignment, entries: Mapping[str, TensorLike]) -> Array:
    arrays = {name: to_array(entries[name]) for name in assignment.entries}
    for name, array in arrays.items():
        _require_finite(name, array, assignment.variable)
    value = assignment.value(*arrays.values())
    # The sum of two finite biases may be infinite.
    _require_finite(", ".join(arrays), value, assignment.variable)
    return value


def to_array(entry: TensorLike) -> Array:
    """Convert an array or a tensor of PyTorch, JAX or TensorFlow to a NumPy array.

    NumPy has no bfloat16, so float16 and bfloat16 become float32. Other dtypes stay.
    """
    if hasattr(entry, "detach"):
        tensor: Tensor = entry.detach().cpu()
        entry = tensor.float() if "bfloat16" in str(tensor.dtype) else tensor
    array = np.asarray(entry)
    return array.astype(np.float32) if array.dtype.name in ("float16", "bfloat16") else array


def _require_separate_layers(assignments: Sequence[Assignment]) -> None:
    """Raise a ValueError if the user passes the same Keras layer for two modules."""
    sources: dict[int, str] = {}
    for assignment in assignments:
        names, variable = ", ".join(assignment.entries), assignment.variable
        if id(variable) in sources:
            raise ValueError(
                f"The variable '{variable.path}' would get its value from {sources[id(variable)]} "
                f"and from {names}. Give each module its own layer."
            )
        sources[id(variable)] = names


def _require_floats(name: str, entry: TensorLike, variable: keras.Variable) -> None:
    """Raise a ValueError if an entry is not an array of floating-point numbers.

    An integer variable, such as a count of updates, takes integers too.
    """
    dtype = getattr(entry, "dtype", None)
    try:
        dtype = np.asarray(entry).dtype if dtype is None else dtype
    except ValueError as error:
        raise ValueError(
            f"The entry '{name}' is not an array: {error}. Check the program that wrote the "
            "weights."
        ) from error
    # The dtypes of PyTorch have no attribute `name`, so use their text, "torch.float32".
    kind = str(getattr(dtype, "name", dtype)).removeprefix("torch.")
    if kind in FLOATS or ("int" in variable.dtype and "int" in kind):
        return
    advice = "Check the program that wrote the weights."
    if QUANTIZED_DTYPE.match(kind):
        advice = (
            "Pass the weights of the model before it was quantized. If the weights are not "
            "quantized, convert the entry to floats: entry.astype('float32')."
        )
    raise ValueError(
        f"The entry '{name}' must be an array of floating-point numbers. Received dtype {kind}. "
        f"{advice}"
    )


def _require_finite(name: str, array: Array, variable: keras.Variable) -> None:
    """Raise a ValueError if a weight is not finite, or its variable's dtype cannot store it.

    A variance must not be negative either.
    """
    wrong, problem = ~np.isfinite(array), "NaN or infinite values"
    advice = "Pass a checkpoint without NaN and infinite values."
    if not wrong.any():
        # NumPy has no bfloat16. float32 has the same range.
        dtype = "float32" if variable.dtype == "bfloat16" else variable.dtype
        with np.errstate(over="ignore", invalid="ignore"):
            stored = array.astype(dtype)
        wrong = stored != array if "int" in dtype else ~np.isfinite(stored)
        problem = f"values that do not fit {dtype}"
        advice = f"Create the layer of '{variable.path}' with another dtype, such as float32."
    if not wrong.any() and variable.name == "moving_variance":
        wrong, problem = array < 0, "negative values, and it is a variance"
        advice = "Check whether the entries of mean and variance were swapped."
    if wrong.any():
        count = f"{np.count_nonzero(wrong)} of {wrong.size}"
        raise ValueError(f"The entry '{name}' has {problem}: {count}. {advice}")


def _require_shape(
    name: str, shape: Sizes, received: Sizes, variable: keras.Variable, source: str
) -> None:
    if received == shape:
        return
    advice = f"Create the layer of '{variable.path}' with as many units and inputs as in {source}."
    if received == shape[::-1]:
        advice = f"The entry is transposed. To load '{variable.path}', pass entry.T."
    raise ValueError(
        f"The entry '{name}' must have the shape {shape}. Received shape {received}. {advice}"
    )


def _describe_names(missing: list[str], additional: list[str], source: str) -> str:
    text = f"The weights of {source} do not fit the layers."
    if missing:
        text += f" Missing entries: {_listed(missing)}."
    if additional:
        text += f" Entries without a layer: {_listed(additional)}."
    if missing and (longer := [name for name in additional if name.endswith(missing[0])]):
        return f"{text} Pass prefix='{longer[0].removesuffix(missing[0])}'."
    if missing:
        return f"{text} Pass weights and layers of the same module."
    return f"{text} Pass layers for these entries too, or remove these entries."


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
