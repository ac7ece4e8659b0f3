"""Random texts for inputs without data have words of the model's vocabularies."""

import keras
import numpy as np
import pytest

from keras_norm.export.model.random_samples import UNKNOWN, WORDS, draw_texts
from tests.export import models, text_models


def draw(model, name, shape=(4,), words=7, known=False):
    (tensor,) = [tensor for tensor in model.inputs if tensor.name == name]
    drawn = draw_texts(model, tensor, shape, words, known, np.random.default_rng(0))
    return [text.decode() for text in drawn.ravel()]


def test_texts_have_words_of_the_vocabulary_and_different_lengths():
    texts = draw(text_models.classifier(), "review", known=True)
    assert {word for text in texts for word in text.split()} <= {*text_models.WORDS}
    assert [len(text.split()) for text in texts] == [7, 4, 7, 4]
    first, second, third, _ = draw(text_models.classifier(), "review")
    assert UNKNOWN not in first
    assert UNKNOWN in second.split()
    assert third == ""


def test_each_input_has_the_words_of_its_own_layer():
    model = text_models.mixed()
    assert {*draw(model, "tags", (4, 3), known=True)} == {*text_models.COLORS}
    assert {*" ".join(draw(model, "title", known=True)).split()} <= {*text_models.WORDS}


@pytest.mark.parametrize(("split", "separator"), [("character", ""), ("whitespace", " ")])
def test_words_are_separated_as_the_layer_splits_them(split, separator):
    inputs = keras.Input((), dtype="string", name="x")
    layer = keras.layers.TextVectorization(vocabulary=["p", "q"], split=split)
    text, *_ = draw(keras.Model(inputs, layer(inputs)), "x")
    assert text in (separator.join("pqpqpqp"), separator.join("qpqpqpq"))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.StringLookup(vocabulary=["new york", "paris"]),
        lambda: keras.layers.TextVectorization(vocabulary=["new york", "paris"], split=None),
    ],
    ids=["StringLookup", "split=None"],
)
def test_a_layer_that_does_not_split_texts_gets_one_token_for_each_text(layer):
    texts = draw(models.of(layer(), (), dtype="string"), "x", shape=(2,), known=True)
    assert {*texts} == {"new york", "paris"}


def test_a_model_without_a_vocabulary_gets_words():
    texts = draw(models.of(keras.layers.Hashing(5), (), dtype="string"), "x", known=True)
    assert {*texts} <= {*WORDS}
