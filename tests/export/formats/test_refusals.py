"""What is told of a model before it is exported."""

import keras
import numpy as np
import pytest

from keras_norm.export import export_saved_model
from keras_norm.export.formats.refusals import refuse_unfit, warn_of_fixed_batch

X = np.random.default_rng(0).normal(size=(5, 7, 3)).astype("float32")


def first_called():
    model = keras.Sequential([keras.layers.SimpleRNN(2)], name="called")
    model(X)
    return model


def test_the_sizes_of_a_first_call_are_told(caplog):
    warn_of_fixed_batch(first_called())
    assert 'model "called" has a fixed batch of 5' in caplog.text
    assert "let it begin with keras.Input(shape)" in caplog.text


@pytest.mark.parametrize("batch", [None, 5])
def test_of_sizes_that_were_meant_nothing_is_told(batch, caplog):
    inputs = keras.Input((None, 3), batch_size=batch)
    functional = keras.Model(inputs, keras.layers.SimpleRNN(2)(inputs))
    warn_of_fixed_batch(functional)
    warn_of_fixed_batch(keras.Sequential([keras.Input((None, 3)), keras.layers.SimpleRNN(2)]))
    assert not caplog.records


def dense(layer="d", model="m"):
    inputs = keras.Input((3,), name="größe der Eingabe")
    return keras.Model(inputs, keras.layers.Dense(2, name=layer)(inputs), name=model)


class Scale(keras.layers.Layer):
    """Multiplies by a weight whose name has a space."""

    def build(self, shape):
        self.scale = self.add_weight(name="my scale", shape=(3,))

    def call(self, x):
        return x * self.scale


@pytest.mark.parametrize(
    ("model", "received"),
    [
        (lambda: dense(model="my model"), 'model "my model"'),
        (lambda: dense(model="a\n\x1b[2J"), r'model "a\\n\\x1b\[2J"'),
        (lambda: dense("größe"), 'layer "größe"'),
        (lambda: dense("_under"), 'weight ".*_under/kernel"'),
        (lambda: keras.Sequential([keras.Input((3,)), Scale()]), 'weight ".*/my scale"'),
    ],
)
def test_names_that_tensorflow_cannot_save_are_refused(model, received, tmp_path):
    with pytest.raises(
        ValueError, match=f"cannot save the {received} .* that begins with a letter"
    ):
        export_saved_model(model(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_names_that_tensorflow_saves_are_not_refused():
    refuse_unfit(dense("Dense-2.b"))
    activation = keras.layers.Activation("relu", name="_no_weights")
    refuse_unfit(keras.Sequential([keras.Input((3,)), activation]))
