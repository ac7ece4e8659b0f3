"""Data and models for the code on the pages of the site (docs/conftest.py)."""

import pathlib
import re

import keras
import numpy as np

import keras_norm

ROWS, CLASSES = 8, 10
DOCS = pathlib.Path(__file__).parents[1] / "docs"


def block(page: str, first_line: str, language: str = "python") -> str:
    """Return the code block of a page that begins with a line, such as the name of a script."""
    pattern = rf"^```{language}\n({re.escape(first_line)}\n.*?)^```"
    found = re.findall(pattern, (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"{page} has {len(found)} blocks that begin with {first_line!r}"
    return str(found[0])


def digits(samples: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Return random sequences of eight rows of eight pixels, and labels."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, ROWS, ROWS)).astype("float32")
    return x, rng.integers(0, CLASSES, samples)


def digits_model(layer: keras.layers.Layer | None = None) -> keras.Model:
    """Return a model from rows to classes, compiled and untrained; equal in every run.

    With fewer units, the norm may magnify rounding errors in OpenVINO above the tolerance.
    """
    keras.utils.set_random_seed(0)
    rows = keras.Input((None, ROWS), name="rows")
    h = (layer or keras_norm.LayerNormLSTM(16, name="lstm"))(rows)
    model = keras.Model(rows, keras.layers.Dense(CLASSES, "softmax", name="digit")(h))
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def text_model() -> keras.Model:
    """Return a model from texts to a score, with a vocabulary of five words."""
    words = keras.layers.TextVectorization(output_sequence_length=4, name="words")
    words.set_vocabulary(["not", "a", "bad", "good", "film"])
    text = keras.Input((), dtype="string", name="text")
    ids = words(text)
    h = keras_norm.LayerNormGRU(4)(keras.layers.Embedding(7, 3, mask_zero=True)(ids))
    return keras.Model(text, keras.layers.Dense(1, name="score")(h))
