"""Small models that the export tests share."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import keras_norm


def tagger() -> keras.Model:
    """Two inputs (one of token ids with a mask), three outputs by key, one of them an input."""
    features = keras.Input((None, 3), name="features of it")
    ids = keras.Input((None,), dtype="int32", name="file")  # a name that np.savez reserves
    embedded = keras.layers.Embedding(7, 4, mask_zero=True)(ids)
    tags = keras.layers.Dense(2)(keras.layers.Concatenate()([features, embedded]))
    mean = keras.layers.GlobalAveragePooling1D()(tags)
    return keras.Model([features, ids], {"tags/all": tags, "mean": mean, "echo": features})


def tagger_data(batch: int, time: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "features_of_it": rng.normal(size=(batch, time, 3)).astype("float32"),
        "file": rng.integers(1, 7, (batch, time)).astype("int32"),
    }


def of(
    layer: Callable[[Any], Any], shape: tuple[int | None, ...] = (None, 3), **options: Any
) -> keras.Model:
    """One layer, or another function, of one input; `options` are arguments of keras.Input."""
    inputs = keras.Input(shape, **{"name": "x", **options})
    return keras.Model(inputs, layer(inputs))


def stack(*layers: keras.layers.Layer, shape: tuple[int | None, ...] = (None, 3)) -> keras.Model:
    return keras.Sequential([keras.Input(shape, name="x"), *layers])


def dense(**arguments: Any) -> keras.Model:
    return of(keras.layers.Dense(2, name="y", **arguments), (3,))


def recurrent() -> keras.Model:
    """The recurrence that is quickest to trace, with a norm, a step and two outputs."""
    inputs = keras.Input((None, 3), name="x")
    hidden = keras_norm.LayerNormSimpleRNN(4, return_sequences=True, name="hidden")(inputs)
    return keras.Model(inputs, [hidden, keras.layers.Dense(2, name="y")(hidden)])


def with_function(function: Any) -> keras.Model:
    return of(keras.layers.Lambda(function, name="odd"))


def assert_same(actual: dict[str, Any], expected: dict[str, Any], atol: float = 1e-5) -> None:
    assert set(actual) == set(expected)
    for name, wanted in expected.items():
        np.testing.assert_allclose(actual[name], wanted, rtol=0, atol=atol, err_msg=name)
