"""Frozen dataclasses as what JSON can hold, and back."""

import dataclasses
import json
import math
import types
import typing
from typing import Any, Self

import numpy as np

# Properties that readers of the JSON want, and need not compute.
DERIVED = (
    "verdict",
    "passed",
    "failures",
    "worst",
    "worst_case",
    "atol_needed",
    "max_abs",
    "max_rel",
    "large",
    "factor",
)


def to_plain(node: Any) -> Any:
    """Dataclasses as dicts, with their verdicts; arrays as lists; NaN and infinity as text.

    Args:
        node: a dataclass, or what one holds.
    """
    if dataclasses.is_dataclass(node):
        plain = {f.name: to_plain(getattr(node, f.name)) for f in dataclasses.fields(node)}
        present = [name for name in DERIVED if hasattr(node, name) and name not in plain]
        return {**plain, **{name: to_plain(getattr(node, name)) for name in present}}
    if isinstance(node, np.ndarray):
        node = node.tolist()
    if isinstance(node, tuple | list):
        return [to_plain(item) for item in node]
    if isinstance(node, float) and not math.isfinite(node):
        return json.dumps(float(node))  # "NaN", "Infinity" or "-Infinity"
    return float(node) if isinstance(node, float) else node


def from_plain(kind: Any, plain: Any) -> Any:
    """What `to_plain` made it from.

    Args:
        kind: a dataclass, or the type of a field.
        plain: what `to_plain` gave.

    Raises:
        KeyError, TypeError, ValueError: it is something else.
    """
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is types.UnionType:  # of "... | None"
        return None if plain is None else from_plain(arguments[0], plain)
    if dataclasses.is_dataclass(kind):
        kinds = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        given = {name: from_plain(kinds[name], _of(dict, plain)[name]) for name in names}
        return typing.cast(type, kind)(**given)
    if typing.get_origin(kind) is tuple:
        items = _of(list, plain)
        each = arguments[:1] * len(items) if arguments[-1] is Ellipsis else arguments
        return tuple(from_plain(k, item) for k, item in zip(each, items, strict=True))
    if kind is np.ndarray:
        return np.array(plain if isinstance(plain, list) else float(plain), "float64")
    if kind is Any:  # numbers, or lists of them
        return tuple(from_plain(Any, p) for p in plain) if isinstance(plain, list) else float(plain)
    return float(plain) if kind is float else _of(kind, plain)


class InJson:
    """A dataclass that is written as JSON, and comes back from it.

    Attributes:
        CALLED: what it is, for messages.
    """

    CALLED = "result"

    def to_json(self) -> str:
        """All of it as JSON text; `from_json` reads it."""
        return json.dumps(to_plain(self), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote.

        Args:
            text: what it wrote.

        Raises:
            ValueError: it is something else.
        """
        try:
            return typing.cast(Self, from_plain(cls, json.loads(text)))
        except (KeyError, TypeError, ValueError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"the text is no {cls.CALLED} of check: {why}") from None


def _of(kind: type, plain: Any) -> Any:
    if not isinstance(plain, kind):
        raise TypeError(f"{plain!r:.40} is no {kind.__name__}")
    return plain
