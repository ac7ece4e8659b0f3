"""A model of texts is split into its preprocessing and its core, with equal outputs together."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import export_tflite, open_runner, split_text_model
from keras_norm.export.signature import input_specs, output_names
from tests.export import models, text_models


def tensors(data):
    return {name: tf.constant(values) for name, values in data.items()}


def without_texts():
    """Return `text_models.mixed()` without its output of texts."""
    model = text_models.mixed()
    return keras.Model(model.inputs, {"scores": model.output["scores"]}, name="animals")


def test_both_parts_together_compute_the_outputs_of_the_model(tmp_path):
    model = text_models.classifier()
    preprocessing, core = split_text_model(model)
    texts = tf.constant(text_models.texts())
    numbers = preprocessing(texts)
    np.testing.assert_array_equal(core(numbers), model(texts))
    assert {n: spec.dtype for n, spec in input_specs(core).items()} == {"review": "int64"}
    assert output_names(core) == output_names(model)
    assert [id(w) for w in core.weights] == [id(w) for w in model.weights]
    with open_runner(export_tflite(core, tmp_path / "core.tflite")) as run:
        (actual,) = run({"review": np.asarray(numbers)}).values()
    np.testing.assert_allclose(actual, model(texts), rtol=0, atol=1e-5)


def test_inputs_of_texts_and_of_numbers_are_separated():
    model = without_texts()
    preprocessing, core = split_text_model(model)
    data = tensors(text_models.mixed_data()) | {"x": tf.ones((9, 5))}
    ids = preprocessing({name: data[name] for name in ("title", "tags")})
    expected = model([data["title"], data["tags"], data["x"]])
    actual = core({**ids, "x": data["x"]})
    np.testing.assert_array_equal(actual["scores"], expected["scores"])


def test_several_layers_of_one_input_get_numbered_inputs():
    text = keras.Input((), dtype="string", name="text")
    words = keras.layers.TextVectorization(vocabulary=["a"], output_mode="count")(text)
    letters = keras.layers.TextVectorization(
        vocabulary=["b"], output_mode="count", split="character"
    )
    model = keras.Model(text, keras.layers.concatenate([words, letters(text)]))
    preprocessing, core = split_text_model(model)
    assert sorted(input_specs(core)) == ["text", "text_1"]
    texts = tf.constant(["a b", "ab"])
    np.testing.assert_array_equal(core(preprocessing(texts)), model(texts))


def test_a_nested_model_is_split_inside():
    inner = keras.Sequential(
        [
            keras.Input((), dtype="string"),
            keras.layers.TextVectorization(vocabulary=text_models.WORDS),
            keras.layers.Embedding(20, 4, mask_zero=True),
            keras_norm.LayerNormGRU(4),
        ],
        name="encoder",
    )
    text = keras.Input((), dtype="string", name="text")
    model = keras.Model(text, keras.layers.Dense(2, name="y")(inner(text)))
    preprocessing, core = split_text_model(model)
    assert preprocessing.weights == []
    texts = tf.constant(text_models.texts())
    np.testing.assert_array_equal(core(preprocessing(texts)), model(texts))


@keras.saving.register_keras_serializable(package="tests")
class Encoder(keras.layers.Layer):
    """A layer that takes texts, and has weights."""

    def __init__(self, **options):
        super().__init__(**options)
        self.words = keras.layers.TextVectorization(vocabulary=["a"], output_mode="count")
        self.dense = keras.layers.Dense(2)

    def call(self, texts):
        return self.dense(self.words(texts))

    def compute_output_shape(self, shape):
        return (*shape, 2)


@keras.saving.register_keras_serializable(package="tests")
class Weighted(keras.layers.Layer):
    """A layer that takes texts and numbers."""

    def call(self, inputs):
        texts, numbers = inputs
        return numbers * tf.cast(tf.strings.length(texts), numbers.dtype)

    def compute_output_shape(self, shapes):
        return shapes[1]


def text_input():
    return keras.Input((), dtype="string", name="text")


def encoded():
    text = text_input()
    return keras.Model(text, Encoder(name="encoder")(text))


def weighted():
    inputs = text_input(), keras.Input((), name="x")
    return keras.Model(inputs, Weighted(name="weighted")(inputs))


def echoed():
    text = text_input()
    lengths = keras.layers.TextVectorization(vocabulary=["a"], output_mode="count")(text)
    return keras.Model(text, {"text": text, "y": lengths})


def sparse():
    text = text_input()
    words = keras.layers.TextVectorization(
        vocabulary=["a"], output_mode="count", sparse=True, name="words"
    )
    return keras.Model(text, words(text))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (models.dense, r'model ".*" takes no texts, so there is nothing to split'),
        (weighted, r'layer "weighted" \(Weighted\) takes texts together with numbers'),
        (encoded, r'layer "encoder" \(Encoder\) takes texts and has weights'),
        (text_models.mixed, r'layer "animal" \(StringLookup\) turns numbers into texts'),
        (echoed, 'output "text" is text, but the core model computes numbers'),
        (sparse, r'layer "words" \(TextVectorization\) returns a sparse or ragged tensor'),
    ],
)
def test_a_model_that_cannot_be_split_is_refused_in_one_line(build, message):
    with pytest.raises(ValueError, match=rf"\A{message}[^\n]*\Z"):
        split_text_model(build())
