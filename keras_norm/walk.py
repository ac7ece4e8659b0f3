"""Every layer of a model, however deeply nested, with its path, and which keep statistics."""

from collections.abc import Iterator
from typing import Any

from keras_norm.keras_internals import sublayers


def named_layers(layer: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each layer within `layer`, once, with its path: "encoder/lstm/lstm_cell/state_norm".

    Layers that were never built are left out: a template that others were made from computes
    nothing.

    Args:
        layer: a Keras model or layer.
        path: path of `layer`, which every yielded path starts with.

    Yields:
        (path, layer) pairs, a layer before the layers inside it.
    """
    yield from _walk(layer, path, set())


def is_batch_norm(layer: Any) -> bool:
    """Whether a layer normalizes with moving statistics at inference."""
    return (
        getattr(layer, "moving_mean", None) is not None
        and getattr(layer, "moving_variance", None) is not None
    )


def batch_norms(layer: Any) -> list[tuple[str, Any]]:
    """The layers within `layer` that normalize with moving statistics, with their paths.

    They are in the same order in a clone of a model, whose other layers may not be: a clone has one
    layer more where masked inputs are joined, for their masks.
    """
    return [(path, inner) for path, inner in named_layers(layer) if is_batch_norm(inner)]


def _walk(layer: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    for child in sublayers(layer):
        if id(child) in seen:
            continue
        seen.add(id(child))
        child_path = f"{path}/{child.name}" if path else child.name
        if child.built:
            yield child_path, child
        yield from _walk(child, child_path, seen)
