"""List the nested layers of a model, or only its batch normalizations, with their paths."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import keras

from keras_norm.keras_internals import sublayers

# A function that names a sublayer in a path: (layer, sublayer) -> name, such as "lstm_cell".
NameOf: TypeAlias = Callable[[keras.layers.Layer, keras.layers.Layer], str]


def is_functional(layer: object) -> bool:
    """Return whether a layer is a functional model or a built Sequential model."""
    return isinstance(layer, keras.Model) and getattr(layer, "inputs", None) is not None


def named_layers(
    layer: keras.layers.Layer, name_of: NameOf = lambda parent, child: str(child.name)
) -> Iterator[tuple[str, keras.layers.Layer]]:
    """Iterate over all nested layers with their paths, such as "encoder/lstm/lstm_cell/state_norm".

    A layer that occurs twice is listed once. Layers that were never built are not listed: a cell's
    template norm, for example, computes nothing.

    Args:
        layer: a Keras model or layer.
        name_of: called once for each nested layer.

    Yields:
        (path, layer) pairs, an outer layer before its inner layers.
    """
    seen: set[int] = set()

    def walk(layer: keras.layers.Layer, prefix: str) -> Iterator[tuple[str, keras.layers.Layer]]:
        for child in sublayers(layer):
            if id(child) not in seen:
                seen.add(id(child))
                path = prefix + name_of(layer, child)
                if child.built:
                    yield path, child
                yield from walk(child, f"{path}/")

    yield from walk(layer, "")


def is_batch_norm(layer: keras.layers.Layer) -> bool:
    """Return whether a layer normalizes with moving statistics at inference."""
    names = ("moving_mean", "moving_variance")
    return all(getattr(layer, name, None) is not None for name in names)


def batch_norms(layer: keras.layers.Layer) -> list[tuple[str, keras.layers.Layer]]:
    """List the nested layers that normalize with moving statistics, with their paths.

    A model and its clone list them in one order. Other layers may differ: Keras adds a layer to the
    clone for each place where masked inputs are joined.
    """
    return [(path, inner) for path, inner in named_layers(layer) if is_batch_norm(inner)]
