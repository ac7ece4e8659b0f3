"""Convert frozen dataclasses to JSON and back."""

import dataclasses
import json
import math
import types
import typing
from typing import Any, Self

from keras_norm.typing import Json

# JSON has these properties too, not only the fields of a dataclass. A program that reads the JSON
# then need not compute them.
DERIVED = (
    "verdict",
    "status",
    "passed",
    "failures",
    "worst",
    "worst_case",
    "atol_needed",
    "max_abs",
    "max_rel",
    "equal_share",
    "rms_share",
    "large",
    "factor",
)


def to_plain(node: object) -> Json:
    """Convert a dataclass to dicts, lists, numbers and text that JSON supports.

    The dicts also contain the properties in `DERIVED`. NaN and infinity become text.

    Args:
        node: a dataclass, or the value of a field.
    """
    if dataclasses.is_dataclass(node):
        names = [field.name for field in dataclasses.fields(node)]
        names += [name for name in DERIVED if hasattr(node, name) and name not in names]
        return {name: to_plain(getattr(node, name)) for name in names}
    if isinstance(node, tuple):
        return list(map(to_plain, node))
    if isinstance(node, float):
        # JSON has no NaN and no infinity: return the text "NaN", "Infinity" or "-Infinity".
        return float(node) if math.isfinite(node) else json.dumps(float(node))
    return node


def from_plain(kind: Any, plain: Json) -> Any:
    """Convert the result of `to_plain` back to a dataclass.

    Args:
        kind: a dataclass, or the type of a field.
        plain: the result of `to_plain`.

    Raises:
        KeyError, TypeError, ValueError: `plain` does not describe a value of type `kind`.
    """
    arguments = typing.get_args(kind)
    if isinstance(kind, types.UnionType):  # the field may be None, for example `float | None`
        return None if plain is None else from_plain(arguments[0], plain)
    if dataclasses.is_dataclass(kind):
        kinds, items = typing.get_type_hints(kind), _require_type(dict, plain)
        names = [field.name for field in dataclasses.fields(kind)]
        return typing.cast(type, kind)(**{n: from_plain(kinds[n], items[n]) for n in names})
    if typing.get_origin(kind) is tuple:
        items = _require_type(list, plain)
        each = arguments[:1] * len(items) if arguments[-1] is Ellipsis else arguments
        return tuple(from_plain(k, item) for k, item in zip(each, items, strict=True))
    # A field of type Any has numbers in nested tuples, such as ((1.0, 2.0), (3.0,)).
    if kind is Any:
        return tuple(from_plain(Any, p) for p in plain) if isinstance(plain, list) else float(plain)
    return float(plain) if kind is float else _require_type(kind, plain)


class JsonDataclass:
    """Base class of dataclasses that are written to JSON and read from it.

    Attributes:
        NOUN: noun for the dataclass in error messages.
    """

    NOUN = "result"

    def to_json(self) -> str:
        """Return the whole dataclass as JSON text; `from_json` reads this text."""
        return json.dumps(to_plain(self), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a dataclass from the text that `to_json` returned.

        Args:
            text: JSON text from `to_json`.

        Raises:
            ValueError: the text was not written by `to_json` of this class.
        """
        try:
            return typing.cast(Self, from_plain(cls, json.loads(text)))
        except (KeyError, TypeError, ValueError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"the text is not a {cls.NOUN} that to_json wrote: {why}") from None


def _require_type(kind: type, plain: Json) -> Json:
    if not isinstance(plain, kind):
        raise TypeError(f"{plain!r:.40} is not a {kind.__name__}")
    return plain
