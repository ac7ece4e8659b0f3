"""Eight bits on real data with real labels: handwritten digits, read row by row."""

import keras
import numpy as np
import pytest

import keras_norm
from examples import digits
from keras_norm.export import VerificationError, export_tflite
from keras_norm.export.exporting import quantization
from keras_norm.export.runners import TFLiteRunner
from tests.export import models


@pytest.fixture(scope="module")
def data():
    return digits.load()


@pytest.fixture(scope="module")
def trained(data):
    """An unrolled recurrence with LayerNorm, half trained: over 0.8 of the digits are right."""
    x, _, y, _ = data
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8), name="rows")
    hidden = keras_norm.LayerNormSimpleRNN(32, unroll=True)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(hidden))
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    model.fit(x, y, 64, 3, verbose=0)
    return model


def accuracy(probabilities, labels):
    return (probabilities.argmax(-1) == labels).mean()


def test_an_unrolled_recurrence_in_8_bits_keeps_its_accuracy(tmp_path, trained, data):
    x, x_test, _, y_test = data
    path = export_tflite(trained, tmp_path / "m.tflite", quantize="int8", representative=x[:50])
    with TFLiteRunner(path) as run:
        (actual,) = run({"rows": x_test}).values()
        assert run.inputs["rows"].dtype == "float32"
        assert "WHILE" not in run.ops()
    expected = trained.predict(x_test, verbose=0)
    assert accuracy(expected, y_test) > 0.8
    assert accuracy(actual, y_test) > accuracy(expected, y_test) - 0.02
    assert np.sqrt(np.mean((actual - expected) ** 2)) < 0.02


def test_inputs_of_unlike_scales_leave_a_file_of_no_use_and_it_is_refused(tmp_path):
    inputs = keras.Input((2,), name="x")
    layer = keras.layers.Dense(1, use_bias=False)
    model = keras.Model(inputs, layer(inputs))
    layer.set_weights([np.array([[1.0], [1e-3]])])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2)) * [1.0, 300.0]
    with pytest.raises(VerificationError, match=r"is off by .* over which it varies by .* no use"):
        export_tflite(model, tmp_path / "m.tflite", quantize="int8", representative=x)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("layer", [keras_norm.LayerNormGRU, keras.layers.LSTM])
def test_a_loop_in_8_bits_is_refused_with_the_layer_and_the_remedy(tmp_path, layer):
    inputs = keras.Input((None, 3), name="x")
    model = keras.Model(inputs, layer(4, name="looped")(inputs))
    with pytest.raises(ValueError, match=r'loop of layer "looped" \(\w+\): .* unroll=True'):
        export_tflite(
            model, tmp_path / "m.tflite", quantize="int8", representative=np.ones((4, 5, 3))
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantize": "int8"}, "give representative="),
        ({"quantize": "float16", "representative": np.ones((4, 3))}, "serve .* only"),
        ({"representative": np.ones((4, 3))}, "received quantize=None"),
        ({"quantize": "int8", "representative": np.ones((4, 2))}, r"Received shape \(4, 2\)"),
        ({"quantize": "int8", "representative": np.ones((1, 3))}, "a few hundred. Received 1"),
        ({"quantize": "int8", "fused": True}, "keep their weights in float32"),
        ({"quantize": "int8", "step": True}, "export without step=True"),
    ],
)
def test_a_combination_that_cannot_be_is_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        export_tflite(models.dense(), tmp_path / "m.tflite", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_samples_fill_whole_batches():
    samples = quantization.read_representative(models.dense(), "int8", np.arange(15).reshape(5, 3))
    arrays = quantization.whole_batches(samples, 4)
    np.testing.assert_array_equal(arrays["x"][:, 0], [0, 3, 6, 9, 12, 0, 3, 6])


def test_statistics_of_timesteps_in_8_bits_want_data_to_be_tested_on(tmp_path):
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, keras_norm.BatchNormLSTM(2, max_timesteps=4)(inputs))
    with pytest.raises(ValueError, match=r"statistics of every timestep.*representative="):
        export_tflite(model, tmp_path / "m.tflite", quantize="dynamic")
