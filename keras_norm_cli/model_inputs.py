"""Read the inputs of a .keras file without Keras, and compare headers of data with them."""

import json
import pathlib
import re
import zipfile
from collections.abc import Mapping
from typing import NamedTuple

from keras_norm_cli.array_headers import Header

# Names of inputs that exporters do not change. In other names, they replace characters.
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Names that Keras gives to inputs without a name. An exported file names such an input "input".
AUTOMATIC = re.compile(r"(keras_tensor|input_layer)(_\d+)?")


class ModelInput(NamedTuple):
    """Shape (None for a dynamic dimension) and dtype of an input."""

    shape: tuple[int | None, ...]
    dtype: str


def is_model_file(path: pathlib.Path) -> bool:
    """Return whether a file is an archive with the config of a Keras model."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "config.json" in archive.namelist()
    # The zip parser may raise any error for a file of another kind.
    except Exception:
        return False


def read_model_inputs(path: pathlib.Path) -> dict[str, ModelInput] | None:
    """Return the inputs of a .keras file by name; None if only Keras can compute them.

    Only Keras can compute the inputs of subclassed models and of models that are not built, and the
    names of inputs that have no plain name.

    Args:
        path: a .keras file.
    """
    if not path.is_file():  # the model of `compare` can be a SavedModel folder
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            config = json.loads(archive.read("config.json"))
        if config["class_name"] not in ("Functional", "Sequential"):
            return None
        layers = [each for each in config["config"]["layers"] if each["class_name"] == "InputLayer"]
        inputs = {
            each["config"]["name"]: ModelInput(
                tuple(each["config"]["batch_shape"]), each["config"]["dtype"]
            )
            for each in layers
        }
    # A damaged file may raise any error. The loader of Keras reports it.
    except Exception:
        return None
    if not inputs or not all(isinstance(n, str) and PLAIN.fullmatch(n) for n in inputs):
        return None
    if len({name.lower() for name in inputs} - {"self"}) < len(inputs):
        return None  # exported files rename inputs that differ only in upper and lower case
    if any(AUTOMATIC.fullmatch(name) for name in inputs):
        return {"input": next(iter(inputs.values()))} if len(inputs) == 1 else None
    return inputs


def require_fitting(
    path: pathlib.Path, headers: Mapping[str, Header], inputs: Mapping[str, ModelInput]
) -> None:
    """Raise ValueError unless stored arrays have the names, shapes and dtypes of a model's inputs.

    Args:
        path: the file of the arrays, for the message.
        headers: headers by name, as from `read_headers`.
        inputs: the inputs by name.
    """
    if "" in headers:
        if len(inputs) > 1:
            names = ", ".join(f"{name}=..." for name in inputs)
            raise ValueError(
                f"{path} has one array, but the model has {len(inputs)} inputs. Write a .npz file: "
                f"numpy.savez(file, {names})."
            )
        headers = dict.fromkeys(inputs, headers[""])
    if set(headers) != set(inputs):
        wanted, received = (", ".join(map(repr, names)) for names in (inputs, headers))
        raise ValueError(
            f"{path}: the arrays must have the names of the model's inputs: {wanted}. Received: "
            f"{received}."
        )
    for name, (shape, dtype) in inputs.items():
        header = headers[name]
        if dtype == "string":  # texts may be (samples,) for an input (samples, 1)
            continue
        if header.dtype.kind not in "biuf":
            raise ValueError(f"{path}: input {name!r} takes {dtype}. Received {header.dtype}.")
        expected = (None, *shape[1:])  # the first dimension is the number of samples
        fits = len(header.shape) == len(expected) and all(
            e is None or e == a for e, a in zip(expected, header.shape, strict=True)
        )
        if not fits:
            raise ValueError(
                f"{path}: input {name!r} takes arrays (samples, ...) of shape "
                f"{str(expected).replace('None', 'any')}. Received shape {header.shape}."
            )
