"""Models of texts, and texts, for the tests of exports."""

import keras
import numpy as np

import keras_norm

WORDS = ["the", "a", "film", "is", "was", "good", "bad", "great", "boring", "not", "very", "and"]
COLORS = ["red", "green", "blue"]
ANIMALS = ["cat", "dog"]


def texts(count=9):
    """Make texts of 1 to 11 words; some words are unknown, one text is empty."""
    rng = np.random.default_rng(0)
    found = [" ".join(rng.choice([*WORDS, "Zebra"], n)) for n in rng.integers(1, 12, count)]
    return [*found[:-1], ""]


def classifier(**options):
    """Build a classifier of texts with a mask; `options` are arguments of TextVectorization."""
    review = keras.Input((), dtype="string", name="review")
    ids = keras.layers.TextVectorization(vocabulary=WORDS, name="words", **options)(review)
    x = keras.layers.Embedding(len(WORDS) + 2, 4, mask_zero=True, name="vectors")(ids)
    x = keras_norm.LayerNormSimpleRNN(4)(x)
    return keras.Model(review, keras.layers.Dense(3, name="kind")(x), name="reviews")


def mixed():
    """Build a model of two inputs of texts and one of numbers; an output is text."""
    title = keras.Input((), dtype="string", name="title")
    tags = keras.Input((None,), dtype="string", name="tags")
    x = keras.Input((5,), name="x")
    counts = keras.layers.TextVectorization(vocabulary=WORDS, output_mode="count")(title)
    ids = keras.layers.StringLookup(vocabulary=COLORS, mask_token="", name="colors")(tags)
    state = keras_norm.LayerNormSimpleRNN(4)(keras.layers.Embedding(5, 4, mask_zero=True)(ids))
    scores = keras.layers.Dense(3, name="scores")(keras.layers.concatenate([counts, state, x]))
    name = keras.layers.StringLookup(vocabulary=ANIMALS, invert=True, name="animal")
    best = name(keras.ops.argmax(scores, axis=-1))
    return keras.Model([title, tags, x], {"scores": scores, "animal": best}, name="animals")


def mixed_data(count=9):
    """Make data for `mixed`."""
    rng = np.random.default_rng(0)
    return {
        "title": texts(count),
        "tags": rng.choice([*COLORS, "pink", ""], (count, 4)),
        "x": rng.normal(size=(count, 5)),
    }
