"""Frozen dataclasses as what JSON can hold, and back."""

import dataclasses
import math
import types
import typing
from typing import Any

NOT_FINITE = ("NaN", "Infinity", "-Infinity")
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
    """Dataclasses as dicts, with their verdicts; tuples as lists; NaN and infinity as text.

    Args:
        node: a dataclass, or what one holds.
    """
    if dataclasses.is_dataclass(node):
        plain = {f.name: to_plain(getattr(node, f.name)) for f in dataclasses.fields(node)}
        present = [name for name in DERIVED if hasattr(node, name) and name not in plain]
        return {**plain, **{name: to_plain(getattr(node, name)) for name in present}}
    if isinstance(node, tuple | list):
        return [to_plain(item) for item in node]
    if isinstance(node, float) and not math.isfinite(node):
        return next(name for name in NOT_FINITE if str(float(name)) == str(float(node)))
    return float(node) if isinstance(node, float) else node


def from_plain(kind: Any, plain: Any) -> Any:
    """What `to_plain` made it from.

    Args:
        kind: a dataclass, or the type of a field.
        plain: what `to_plain` gave.

    Raises:
        KeyError, TypeError: it is something else.
    """
    if plain is None:
        return None
    if dataclasses.is_dataclass(kind):
        kinds = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        return typing.cast(type, kind)(**{n: from_plain(kinds[n], plain[n]) for n in names})
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is types.UnionType:
        return from_plain(arguments[0], plain)  # of "... | None"
    if typing.get_origin(kind) is tuple:
        items = arguments if arguments[-1] is not Ellipsis else arguments[:1] * len(plain)
        return tuple(from_plain(k, item) for k, item in zip(items, plain, strict=True))
    if kind is Any and isinstance(plain, list):
        return tuple(from_plain(Any, item) for item in plain)
    return float(plain) if kind is float or (kind is Any and plain in NOT_FINITE) else plain
