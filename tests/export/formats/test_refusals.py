"""Models that the exporters refuse or warn about before the conversion."""

import keras
import numpy as np
import pytest

from keras_norm.export import export_onnx, export_saved_model, export_tflite
from keras_norm.export.formats.refusals import refuse_unsupported_model, warn_of_static_batch
from tests.export import models

X = np.random.default_rng(0).normal(size=(5, 7, 3)).astype("float32")
EXPORTS = {"m": export_saved_model, "m.tflite": export_tflite, "m.onnx": export_onnx}


def with_nan():
    model = models.dense()
    model.set_weights([np.ones((3, 2)), np.array([np.nan, 1.0])])
    return model


def stateful():
    inputs = keras.Input(batch_shape=(2, 5, 3))
    inner = keras.Model(inputs, keras.layers.GRU(2, stateful=True, name="counter")(inputs))
    return keras.Model(inputs, inner(inputs))


def of_text():
    return models.of(keras.layers.StringLookup(vocabulary=["a"]), (), name="words", dtype="string")


@pytest.mark.parametrize(
    ("build", "message", "name"),
    [
        *((with_nan, '"y" has NaN in its weight "bias".*training diverged', n) for n in EXPORTS),
        *((stateful, r'counter" \(GRU\) is stateful: .* signature "step"', n) for n in EXPORTS),
        *(
            (build, message, name)
            for build, message in [
                (of_text, r'"words" takes text, .*split_text_model\(model\)'),
                (lambda: models.dense(dtype="mixed_float16"), r'"y" \(Dense\) .* in float16.*32'),
                (lambda: models.dense(dtype="bfloat16"), r'"y" \(Dense\) .* in bfloat16.*32'),
            ]
            for name in ("m.tflite", "m.onnx")
        ),
    ],
)
def test_an_unsupported_model_is_refused_with_its_layer(build, message, name, tmp_path):
    with pytest.raises(ValueError, match=message):
        EXPORTS[name](build(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def first_called():
    model = keras.Sequential([keras.layers.SimpleRNN(2)], name="called")
    model(X)
    return model


def test_a_static_batch_from_the_first_call_is_warned_of(tmp_path):
    message = 'model "called" has the static batch size 5, .* begin the model with keras.Input'
    with pytest.warns(UserWarning, match=message) as warned:
        export_saved_model(first_called(), tmp_path / "model")
    assert warned[0].filename == __file__


@pytest.mark.parametrize("batch", [None, 5])
@pytest.mark.filterwarnings("error")
def test_a_declared_batch_size_is_not_warned_of(batch):
    functional = models.of(keras.layers.SimpleRNN(2), batch_size=batch)
    warn_of_static_batch(functional)
    warn_of_static_batch(keras.Sequential([keras.Input((None, 3)), keras.layers.SimpleRNN(2)]))


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
    refuse_unsupported_model(dense("Dense-2.b"))
    activation = keras.layers.Activation("relu", name="_no_weights")
    refuse_unsupported_model(keras.Sequential([keras.Input((3,)), activation]))
