"""Assign weights that another library named to the variables of Keras layers: all or none."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import keras
import numpy as np

from keras_norm.compat.weight_files import read_weights
from keras_norm.typing import Array, Tensor, TensorLike

# Weights by name, in nested dicts or in one dict, or the path of a file of weights.
Weights: TypeAlias = Mapping[str, TensorLike] | str | os.PathLike[str]
Sizes: TypeAlias = tuple[int, ...]
LISTED = 8  # names in one message
NO_NUMBERS = "OSUcmM"  # kinds of NumPy's dtypes: objects, texts, complex numbers, times


@dataclasses.dataclass(frozen=True)
class Assignment:
    """A variable of a layer, and the entries of the other library that determine its value.

    Args:
        variable: the variable.
        entries: the shape of each entry, by its name. It may be empty.
        value: a function of the entries, as arrays in the order of `entries`.
    """

    variable: keras.Variable
    entries: Mapping[str, Sizes]
    value: Callable[..., Array] = lambda entry: entry


def named_entries(weights: Weights, separator: str, prefix: str = "") -> dict[str, TensorLike]:
    """Return weights in one dict: nested dicts are flattened, and a file is read.

    Args:
        weights: a dict of arrays or tensors, which may be nested, or a .safetensors or .npz file.
        separator: text between the names of nested dicts, such as "." or "/".
        prefix: return only the entries whose names begin with this text.

    Raises:
        TypeError: `weights` is neither a dict nor a path.
        ValueError: the file cannot be read without pickle (see `read_weights`), or no name begins
            with the prefix.

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
    entries = _flatten(weights, separator)
    chosen = {name: entry for name, entry in entries.items() if name.startswith(prefix)}
    if prefix and not chosen:
        raise ValueError(
            f"No entry begins with the prefix '{prefix}'. Received the entries: "
            f"{_listed(list(entries))}."
        )
    return chosen


def _flatten(weights: Mapping[str, TensorLike], separator: str) -> dict[str, TensorLike]:
    entries: dict[str, TensorLike] = {}
    for name, value in weights.items():
        if isinstance(value, Mapping):
            inner = _flatten(value, separator)
            entries |= {f"{name}{separator}{key}": entry for key, entry in inner.items()}
        else:
            entries[str(name)] = value
    return entries


def assign_weights(
    assignments: Sequence[Assignment],
    entries: Mapping[str, TensorLike],
    source: str,
    ignored: Iterable[str] = (),
) -> None:
    """Assign entries to all variables, or to none of them if an entry does not fit.

    Args:
        assignments: the variables and the names of their entries.
        entries: arrays or tensors by name, as `named_entries` returns them.
        source: the origin of the weights in messages, such as "PyTorch".
        ignored: names of entries that no variable needs.

    Raises:
        ValueError: an entry is missing or has no real numbers, no variable uses an entry, or a
            shape does not fit. All variables keep their values.
    """
    shapes = {name: shape for a in assignments for name, shape in a.entries.items()}
    missing = [name for name in shapes if name not in entries]
    additional = [name for name in entries if name not in {*shapes, *ignored}]
    if missing or additional:
        raise ValueError(_describe_names(missing, additional, source))
    for assignment in assignments:
        for name, shape in assignment.entries.items():
            _require_numbers(name, entries[name])
            received = tuple(np.shape(entries[name]))
            _require_shape(name, shape, received, assignment.variable, source)
    values = [a.value(*(to_array(entries[name]) for name in a.entries)) for a in assignments]
    for assignment, value in zip(assignments, values, strict=True):
        assignment.variable.assign(value)


def to_array(entry: TensorLike) -> Array:
    """Convert an array or a tensor of PyTorch, JAX or TensorFlow to a NumPy array.

    NumPy has no bfloat16, so all types except float64 become float32.
    """
    if hasattr(entry, "detach"):
        tensor: Tensor = entry.detach().cpu()
        entry = tensor.float() if "bfloat16" in str(tensor.dtype) else tensor
    array = np.asarray(entry)
    return array if array.dtype == np.float64 else array.astype(np.float32)


def _require_numbers(name: str, entry: TensorLike) -> None:
    dtype = getattr(entry, "dtype", None) or np.asarray(entry).dtype
    # A dtype of PyTorch or of TensorFlow has no `kind`.
    if getattr(dtype, "kind", "f") in NO_NUMBERS:
        raise ValueError(
            f"The entry '{name}' must be an array of real numbers. Received dtype {dtype}. Check "
            "the program that wrote the weights."
        )


def _require_shape(
    name: str, shape: Sizes, received: Sizes, variable: keras.Variable, source: str
) -> None:
    if received == shape:
        return
    advice = f"Give the layer of the variable '{variable.path}' the sizes that it has in {source}."
    if received == shape[::-1]:
        advice = f"The entry is transposed: pass its transpose, for '{variable.path}'."
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
        return f"{text} Pass the weights of the module whose layers you pass."
    return f"{text} Pass their layers too, or leave these entries out."


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
