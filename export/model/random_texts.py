"""Draw random texts for an input of a model, from the vocabularies of the model's layers."""

import contextlib
import itertools
from collections.abc import Sequence

import keras
import numpy as np

from keras_norm.export.compare.arrays import to_bytes
from keras_norm.named_layers import named_layers
from keras_norm.typing import Array, Tensor

# Words for a model without a vocabulary, such as a model that hashes texts.
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
# A word that is in no vocabulary. Its letter outside ASCII takes two bytes in UTF-8.
UNKNOWN = "zzqxünbekannt"
# Rows that get an unknown word, and no text, if the model accepts them.
UNKNOWN_ROW, EMPTY_ROW = 1, 2


def draw_texts(
    model: keras.Model,
    tensor: Tensor,
    shape: Sequence[int],
    words: int,
    known: bool,
    rng: np.random.Generator,
) -> Array:
    """Draw an array of texts for one input of a model.

    The words come from the vocabulary of the `TextVectorization` or `StringLookup` layer that the
    input feeds; from all vocabularies of the model, if the input feeds another layer; or from
    `WORDS`. `TextVectorization` gets texts of several words, unless it does not split texts. Any
    other layer gets one word for each text.

    Args:
        model: a functional or a built sequential model.
        tensor: the input, an element of `model.inputs`.
        shape: shape of the array; the first axis is the batch.
        words: number of words of a text; every second row has half as many.
        known: whether every word is in the vocabulary. If not, `UNKNOWN_ROW` has an unknown word,
            and the texts of `EMPTY_ROW` are empty.
        rng: the random generator.

    Returns:
        Array of bytes objects.
    """
    layers = _text_layers(model, tensor)
    found = (layer.get_vocabulary(include_special_tokens=False) for layer in layers)
    vocabulary = [word for known_words in found for word in known_words if word] or list(WORDS)
    # No word repeats before every word of the vocabulary occurs.
    following = itertools.cycle(rng.permutation(vocabulary).tolist())
    separator = _separator(layers)
    texts = np.empty(shape, object)
    for index in np.ndindex(*shape):
        count = 1 if separator is None else words - index[0] % 2 * (words // 2)
        drawn = list(itertools.islice(following, count))
        if index[0] == UNKNOWN_ROW and not known:
            drawn[-1] = UNKNOWN
        if index[0] == EMPTY_ROW and not known:
            drawn = []
        texts[index] = (separator or "").join(drawn)
    return to_bytes(texts)


def _text_layers(model: keras.Model, tensor: Tensor) -> list[keras.layers.Layer]:
    """Return the layers with a vocabulary that an input feeds, or all layers with a vocabulary."""
    layers = [
        layer
        for _, layer in named_layers(model)
        if isinstance(layer, keras.layers.TextVectorization | keras.layers.StringLookup)
    ]
    fed = []
    for layer in layers:
        # `layer.input` raises an error if the model does not call the layer exactly once.
        with contextlib.suppress(AttributeError, ValueError):
            fed += [layer] * (layer.input is tensor)
    return fed or layers


def _separator(layers: Sequence[keras.layers.Layer]) -> str | None:
    """Return the text between two words: "" between characters; None for texts of one word."""
    for layer in layers:
        if isinstance(layer, keras.layers.TextVectorization):
            split = layer.get_config()["split"]
            return {"character": "", None: None}.get(split, " ") if not callable(split) else " "
    return None
