"""Every layer of a model, however deeply nested, with its path, and which keep statistics."""

from collections.abc import Iterator
from typing import Any

from keras_norm.keras_internals import sublayers


def named_layers(layer: Any) -> Iterator[tuple[str, Any]]:
    """Each layer within `layer`, once, with its path: "encoder/lstm/lstm_cell/state_norm".

    Layers that were never built are left out: a template that others were made from computes
    nothing.

    Args:
        layer: a Keras model or layer.

    Yields:
        (path, layer) pairs, a layer before the layers inside it.
    """
    seen: set[int] = set()

    def walk(layer: Any, start: str) -> Iterator[tuple[str, Any]]:
        for child in sublayers(layer):
            if id(child) not in seen:
                seen.add(id(child))
                if child.built:
                    yield start + child.name, child
                yield from walk(child, f"{start}{child.name}/")

    yield from walk(layer, "")


def is_batch_norm(layer: Any) -> bool:
    """Whether a layer normalizes with moving statistics at inference."""
    names = ("moving_mean", "moving_variance")
    return all(getattr(layer, name, None) is not None for name in names)


def batch_norms(layer: Any) -> list[tuple[str, Any]]:
    """The layers within `layer` that normalize with moving statistics, with their paths.

    They are in the same order in a clone of a model, whose other layers may not be: a clone has one
    layer more where masked inputs are joined, for their masks.
    """
    return [(path, inner) for path, inner in named_layers(layer) if is_batch_norm(inner)]
