"""Files that compute in integers: rewritten operations, operations in float32, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import ConversionError, RunnerError, Step, export_tflite
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.runtimes import worker_process
from tests.export import models


def test_an_unmeasured_integer_tensor_is_refused_with_its_layer(tmp_path, monkeypatch):
    def refused(*_, **__):
        line = "Max and min should be recorded during calibration: Failed for tensor m_1/y_1/ArgMax"
        raise RunnerError(line, f"{line}\nEmpty min/max for tensor m_1/y_1/ArgMax\n")

    monkeypatch.setattr(worker_process.WorkerProcess, "load", refused)
    with pytest.raises(
        ConversionError, match=r'numbers in layer "y" \(Dense\), .* the tensor m_1/y_1/ArgMax'
    ):
        export_tflite(models.dense(), tmp_path / "m.tflite", quantize="int16x8", samples=np.eye(3))
    assert list(tmp_path.iterdir()) == []


class PlainNorms(keras.layers.Layer):
    """Normalizes frames with operations that have no 16-bit kernel."""

    def call(self, x):
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        distances = tf.reduce_mean(tf.math.squared_difference(x, mean), axis=-1, keepdims=True)
        variance = keras.ops.var(x, axis=-1, keepdims=True)
        squares = tf.reduce_sum(tf.square(x), axis=-1, keepdims=True)
        scales = [tf.math.rsqrt(v + 0.1) for v in (distances, variance, squares)]
        return tf.concat([(x - mean) * scales[0], (x - mean) * scales[1], x * scales[2]], axis=-1)


def test_norms_without_16_bit_kernels_are_rewritten_and_compute_in_16_bits(tmp_path, caplog):
    inputs = keras.Input((None, 6), name="x")
    normed = keras.layers.LayerNormalization()(PlainNorms()(inputs))
    normed = keras.layers.RMSNormalization()(keras.layers.UnitNormalization()(normed))
    hidden = keras_norm.LayerNormSimpleRNN(4, return_sequences=True)(normed)
    model = keras.Model(inputs, hidden)
    x = np.random.default_rng(0).normal(size=(40, 10, 6)).astype("float32")
    path = tmp_path / "m.tflite"
    with caplog.at_level("INFO", "keras_norm.export"):
        export_tflite(model, path, signature="step", quantize="int16x8", samples=x[:20])
    assert "float32" not in caplog.text
    with TFLiteRunner(path, "step") as run:
        (actual,) = Step(model).over_time(run, {"x": x[20:]}).values()
        assert not {"SQUARED_DIFFERENCE", "SQUARE", "NEG", "SUM"} & run.ops().keys()
    expected = model.predict(x[20:], verbose=0)
    assert np.sqrt(np.mean((actual - expected) ** 2)) < 0.02 * expected.std()


def test_operations_without_16_bit_kernels_compute_in_float32_and_are_logged(tmp_path, caplog):
    def odd(x):
        return tf.where(x > 0.2, tf.nn.elu(x), tf.sqrt(tf.abs(x) + 0.1)) - x

    model = models.of(keras.layers.Lambda(odd, name="odd"), (3,))
    x = np.random.default_rng(0).normal(size=(60, 3)).astype("float32")
    with caplog.at_level("INFO", "keras_norm.export"):
        path = export_tflite(model, tmp_path / "m.tflite", quantize="int16x8", samples=x)
    assert 'layer "odd" (Lambda) computes ELU, SELECT_V2, SQRT in float32' in caplog.text
    with TFLiteRunner(path) as run:
        (actual,) = run({"x": x}).values()
    np.testing.assert_allclose(actual, model(x), rtol=0, atol=1e-3)


def test_masked_attention_in_16_bits_computes_only_products_in_integers(tmp_path, caplog):
    """Keras adds -1e9 where a mask is False; no 16-bit scale fits this and the scores."""
    inputs = keras.Input((6, 4), name="x")
    hidden = keras.layers.MultiHeadAttention(2, 3)(inputs, inputs, use_causal_mask=True)
    model = keras.Model(inputs, keras.layers.AdditiveAttention()([hidden, hidden]))
    x = np.random.default_rng(0).normal(size=(40, 6, 4)).astype("float32")
    path = export_tflite(model, tmp_path / "m.tflite", quantize="int16x8", samples=x)
    (warning,) = caplog.messages
    assert warning.startswith(
        'with all operations in integers the file has a large error: output "additive_attention"'
    )
    with TFLiteRunner(path) as run:
        (actual,) = run({"x": x}).values()
    expected = model.predict(x, verbose=0)
    assert np.sqrt(np.mean((actual - expected) ** 2)) < 0.05 * expected.std()


def spectra(count, seed):
    """Make magnitudes of frames whose loudness changes by 60 dB, like speech with pauses."""
    rng = np.random.default_rng(seed)
    loudness = 10 ** rng.uniform(-3, 0, size=(count, 12, 1))
    return (loudness * np.abs(rng.normal(size=(count, 12, 16))) ** 2).astype("float32")


@pytest.fixture(scope="module")
def denoiser():
    """Build a small denoiser core: logarithms, a norm of each frame, an LSTM, a mask."""
    inputs = keras.Input((None, 16), name="magnitudes")
    logs = keras.ops.log(inputs + 1e-7)
    hidden = keras.layers.LSTM(16, return_sequences=True)(PlainNorms()(logs))
    mask = keras.layers.Dense(
        16, activation="sigmoid", bias_initializer=keras.initializers.Constant(-5.0)
    )(hidden)
    return keras.Model(inputs, mask)


# In `make test`, the attention above is the file in 16 bits that computes products only.
@pytest.mark.parametrize(
    ("quantize", "share"),
    [("int8", 0.15), pytest.param("int16x8", 0.03, marks=pytest.mark.slow)],
)
def test_logarithms_and_norms_compute_in_float32_if_integers_are_too_coarse(
    tmp_path, caplog, denoiser, quantize, share
):
    path = tmp_path / "m.tflite"
    samples, x = spectra(30, seed=0), spectra(30, seed=1)
    export_tflite(denoiser, path, signature="step", quantize=quantize, samples=samples)
    assert (
        "only matrix products, convolutions and lookups compute in integers" in caplog.messages[0]
    )
    with TFLiteRunner(path, "step") as run:
        (actual,) = Step(denoiser).over_time(run, {"magnitudes": x}).values()
        assert run.ops()["DEQUANTIZE"]
    expected = denoiser.predict(x, verbose=0)
    deviation = (expected - expected.mean(axis=0)).std()
    assert np.sqrt(np.mean((actual - expected) ** 2)) < share * deviation


@pytest.mark.parametrize(
    ("quantize", "share"),
    [("int8", 0.15), pytest.param("int16x8", 0.05, marks=pytest.mark.slow)],
)
def test_files_in_integers_use_the_statistics_of_each_timestep(tmp_path, quantize, share):
    inputs = keras.Input((None, 3), name="x")
    layer = keras_norm.BatchNormSimpleRNN(4, max_timesteps=20, return_sequences=True, name="rnn")
    model = keras.Model(inputs, layer(inputs))
    rng = np.random.default_rng(0)
    for weight in layer.weights:
        if "moving_mean" in weight.path:
            weight.assign(rng.normal(size=weight.shape))
        elif "update_count" in weight.path:
            weight.assign(np.ones(weight.shape))
    x = rng.normal(size=(40, 20, 3)).astype("float32")
    path, step = tmp_path / "m.tflite", Step(model)
    export_tflite(model, path, signature="step", quantize=quantize, samples=x[:20])
    expected = model.predict(x[20:], verbose=0)
    with TFLiteRunner(path, "step") as run:
        (actual,) = step.over_time(run, {"x": x[20:]}).values()
        states = step.initial_states(1)
        for t in range(1, 140):
            after = run({"x": x[0, :1]} | states)
            states = {name: after[name] for name in states}
            np.testing.assert_array_equal(states["rnn_steps"], [[t // 128, t % 128]])
    assert np.sqrt(np.mean((actual - expected) ** 2)) < share * expected.std()
