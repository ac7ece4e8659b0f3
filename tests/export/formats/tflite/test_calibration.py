"""The samples from which the scales of activations are taken."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import Step, export_tflite
from keras_norm.export.formats.tflite.calibration import calibration_data, read_representative
from tests.export import models


def test_scales_are_measured_on_inputs_and_states_of_running_streams(reader, data):
    rows = data[0][:5]
    samples = read_representative(reader, "int8", rows)
    arrays, batch = calibration_data(samples, Step(reader), "int16x8")
    np.testing.assert_array_equal(arrays["rows"], rows.transpose(1, 0, 2).reshape(-1, 16))
    states = arrays["hidden_h"].reshape(4, 5, 64)
    assert batch == 1
    assert not states[0].any()
    for t in range(1, 4):
        expected = reader.get_layer("hidden")(rows[:, :t])
        np.testing.assert_allclose(states[t], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layer", [keras_norm.LayerNormLSTM, keras_norm.LayerNormGRU])
def test_calibration_of_8_bits_has_first_timesteps_without_a_hidden_state_of_zeros(layer):
    """Calibration keeps cell states of 0: after the first timestep the cell state is small."""
    step = Step(models.of(layer(4, name="rnn")))
    x = np.random.default_rng(0).normal(size=(5, 6, 3)).astype("float32")
    x[0, 3] = 0.0  # this timestep is omitted
    samples = read_representative(step.model, "int8", x)
    every, _ = calibration_data(samples, step, "int16x8")
    found, _ = calibration_data(samples, step, "int8")
    assert len(found["x"]) == 5 * 6 - 1
    np.testing.assert_array_equal(found["x"][:5], every["x"][:5])
    assert not every["rnn_h"][:5].any()
    np.testing.assert_array_equal(found["rnn_h"][:5], every["rnn_h"][5:10])
    for name in found.keys() - {"x", "rnn_h"}:
        np.testing.assert_array_equal(found[name][:5], every[name][:5])


def test_calibration_of_a_joint_form_has_hidden_states_of_zeros():
    """The norm takes W x + U h, so it has a scale of its own at the first timestep."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    y = keras.layers.Embedding(5, 3)(ids)
    layer = keras_norm.LayerNormGRU(4, norm_form="joint", name="rnn")
    step = Step(keras.Model(ids, layer(y)))
    rows = np.random.default_rng(0).integers(0, 5, (5, 6)).astype("int32")
    samples = read_representative(step.model, "int8", rows)
    (every, _), (found, _) = (calibration_data(samples, step, q) for q in ("int16x8", "int8"))
    assert not found["rnn_h"][:5].any()
    for name, array in every.items():
        np.testing.assert_array_equal(found[name], array)


def test_samples_fill_whole_batches():
    inputs = keras.Input(batch_shape=(4, 3), name="x")
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    arrays, batch = calibration_data(
        read_representative(model, "int8", np.arange(15).reshape(5, 3))
    )
    assert batch == 4
    np.testing.assert_array_equal(arrays["x"][:, 0], [0, 3, 6, 9, 12, 0, 3, 6])


@pytest.mark.parametrize(
    ("quantize", "samples", "message"),
    [
        ("int8", None, "Give samples="),
        ("int16x8", None, "Give samples="),
        ("int8", np.ones((4, 2)), r"Received shape \(4, 2\)"),
        ("int8", np.ones((1, 3)), "received 1. Give a few hundred"),
        ("int8", np.zeros((9, 3)), "returns equal outputs for all samples"),
    ],
)
def test_unusable_samples_are_refused(tmp_path, quantize, samples, message):
    with pytest.raises(ValueError, match=message):
        export_tflite(models.dense(), tmp_path / "m.tflite", quantize=quantize, samples=samples)
    assert list(tmp_path.iterdir()) == []
