"""Names and specifications of a Keras model's inputs in exported files."""

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import TypeVar

from keras_norm.typing import Shape

Value = TypeVar("Value")

# Names that Keras chose, such as "keras_tensor_3". Their numbers change with each run and with
# saving.
AUTOMATIC = re.compile(r"^(keras_tensor|input_layer)(_\d+)?$")


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Name, shape and dtype of an input of a signature.

    Attributes:
        name: a letter, then letters, digits and underscores; unique among the inputs.
        shape: sizes, None for a dynamic dimension (batch, time).
        dtype: NumPy's name of the dtype, or "bfloat16".
    """

    name: str
    shape: Shape
    dtype: str


def valid_name(name: str) -> str:
    """Make a valid name: a letter, followed by letters, digits and underscores.

    "Text in" becomes "Text_in".
    """
    base = re.sub(r"\W", "_", name, flags=re.ASCII)
    return base if base[:1].isalpha() else "tensor_" + base.lstrip("_")


def file_name(name: str) -> str:
    """Return the name that a Keras input has in exported files; "input" if Keras chose its name.

    Characters other than letters, digits and underscores become underscores.
    """
    return valid_name(AUTOMATIC.sub("input", name))


def with_file_names(inputs: Mapping[str, Value], names: Collection[str]) -> dict[str, Value]:
    """Replace each key of `inputs`, a name in Keras, by the name in exported files.

    `names` are the names in exported files. A key that is in `names` does not change. A key does
    not change either if its name in files is not in `names`, or is the name of another input.
    """
    renamed: dict[str, Value] = {}
    for name, value in inputs.items():
        new = name if name in names or not isinstance(name, str) else file_name(name)
        is_free = new in names and new not in inputs and new not in renamed
        renamed[new if is_free else name] = value
    return renamed
