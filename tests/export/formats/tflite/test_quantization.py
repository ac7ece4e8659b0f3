"""Quantized files: accuracy on handwritten digits, refusals and warnings."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from examples import digits
from keras_norm.export import (
    ConversionError,
    RunnerError,
    Step,
    StreamingError,
    VerificationError,
    check,
    export_tflite,
)
from keras_norm.export.checks import plan
from keras_norm.export.formats.tflite import quantization
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.runtimes import worker_process
from tests.export import models


@pytest.fixture(scope="module")
def data():
    return digits.load()


@pytest.fixture(scope="module")
def trained(data):
    """Train an unrolled recurrence with LayerNorm to an accuracy of more than 0.8."""
    x, _, y, _ = data
    inputs = keras.Input((8, 8), name="rows")
    hidden = keras_norm.LayerNormSimpleRNN(32, unroll=True)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(hidden))
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    model.fit(x, y, 64, 3, verbose=0)
    return model


@pytest.fixture(scope="module")
def streaming(trained):
    """Copy the trained weights to a model for sequences of any length."""
    inputs = keras.Input((None, 8), name="rows")
    hidden = keras_norm.LayerNormSimpleRNN(32, name="hidden")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(hidden))
    model.set_weights(trained.get_weights())
    return model


def accuracy(probabilities, labels):
    return (probabilities.argmax(-1) == labels).mean()


def test_an_unrolled_recurrence_in_8_bits_keeps_its_accuracy(tmp_path, trained, data):
    x, x_test, _, y_test = data
    path = export_tflite(trained, tmp_path / "m.tflite", quantize="int8", samples=x[:50])
    with TFLiteRunner(path) as run:
        (actual,) = run({"rows": x_test}).values()
        assert run.inputs["rows"].dtype == "float32"
        assert "WHILE" not in run.ops()
    expected = trained.predict(x_test, verbose=0)
    assert accuracy(expected, y_test) > 0.8
    assert accuracy(actual, y_test) > accuracy(expected, y_test) - 0.02
    assert np.sqrt(np.mean((actual - expected) ** 2)) < 0.02


@pytest.mark.parametrize(
    ("quantize", "lost", "off"), [("int8", 0.02, 0.05), ("int16x8", 0.01, 0.01)]
)
def test_a_step_in_8_bits_keeps_its_accuracy_over_whole_streams(
    tmp_path, streaming, data, quantize, lost, off, monkeypatch
):
    monkeypatch.setattr(plan, "TIMESTEPS", 400)
    x, x_test, _, y_test = data
    path = tmp_path / "m.tflite"
    export_tflite(streaming, path, signature="step", quantize=quantize, samples=x[:100])
    with TFLiteRunner(path, "step") as run:
        (actual,) = Step(streaming).over_time(run, {"rows": x_test}).values()
        assert run.signatures() == ["step"]
        assert {spec.dtype for spec in run.inputs.values()} == {"float32"}
    expected = streaming.predict(x_test, verbose=0)
    assert accuracy(actual, y_test) > accuracy(expected, y_test) - lost
    assert np.sqrt(np.mean((actual - expected) ** 2)) < off
    report = check(streaming, path, x_test[:40])
    assert report.passed  # by the rule of the exporter
    assert not [result for result in report.artifacts if "OpenVINO" in result.name]


def test_scales_are_measured_on_inputs_and_states_of_running_streams(streaming, data):
    rows = data[0][:5]
    samples = quantization.read_representative(streaming, "int8", rows)
    arrays, batch = quantization.calibration_data(samples, Step(streaming), "int16x8")
    np.testing.assert_array_equal(arrays["rows"], rows.transpose(1, 0, 2).reshape(-1, 8))
    layer = streaming.get_layer("hidden")
    states = arrays["hidden_h"].reshape(8, 5, 32)
    assert batch == 1
    assert not states[0].any()
    for t in range(1, 8):
        np.testing.assert_allclose(states[t], layer(rows[:, :t]), rtol=0, atol=1e-5)


def test_calibration_of_8_bits_omits_timesteps_of_zeros(streaming, data):
    rows = data[0][:5].copy()
    rows[0, 3] = 0.0
    samples = quantization.read_representative(streaming, "int8", rows)
    arrays, _ = quantization.calibration_data(samples, Step(streaming), "int8")
    assert len(arrays["rows"]) == 5 * 7 - 1  # without first timesteps, and the blank one
    assert arrays["hidden_h"].any(axis=1).all()


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """Return a function from a factor to the model factor * x, and the file of the model x."""

    def model(factor):
        inputs = keras.Input((2,), name="x")
        layer = keras.layers.Dense(2, name="y")
        outputs = layer(inputs)
        layer.set_weights([np.eye(2) * factor, np.zeros(2)])
        return keras.Model(inputs, outputs)

    path = tmp_path_factory.mktemp("linear") / "m.tflite"
    return model, export_tflite(model(1.0), path)


@pytest.mark.parametrize(("factor", "warned"), [(1.05, False), (1.15, True)])
def test_an_error_of_a_tenth_of_the_deviation_logs_a_warning(linear, caplog, factor, warned):
    model, path = linear
    x = np.random.default_rng(0).normal(size=(100, 2)).astype("float32")
    samples = quantization.read_representative(model(factor), "int8", x)
    quantization.verify_useful(model(factor), path, "int8", samples)
    assert bool(caplog.messages) == warned
    if warned:
        assert caplog.messages[0].startswith('output "y" of the quantized file has the error 0.1')
        assert caplog.messages[0].endswith(
            ': 13% of the deviation. Measure the accuracy on labels, or choose quantize="int16x8"'
        )


def test_a_file_with_a_large_error_is_refused(tmp_path):
    inputs = keras.Input((2,), name="x")
    layer = keras.layers.Dense(1, use_bias=False)
    model = keras.Model(inputs, layer(inputs))
    layer.set_weights([np.array([[1.0], [1e-3]])])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2)) * [1.0, 300.0]
    with pytest.raises(VerificationError, match=r"error .* more than the limit of a quarter"):
        export_tflite(model, tmp_path / "m.tflite", quantize="int8", samples=x)
    assert list(tmp_path.iterdir()) == []


def test_samples_with_equal_outputs_are_refused(tmp_path):
    with pytest.raises(ValueError, match="returns equal outputs for all samples"):
        export_tflite(
            models.dense(), tmp_path / "m.tflite", quantize="int8", samples=np.zeros((9, 3))
        )


@pytest.mark.parametrize("layer", [keras_norm.LayerNormGRU, keras.layers.LSTM])
def test_a_loop_in_8_bits_is_refused_with_the_layer_and_advice(tmp_path, layer):
    inputs = keras.Input((None, 3), name="x")
    model = keras.Model(inputs, layer(4, name="looped")(inputs))
    with pytest.raises(ValueError, match=r'loop of layer "looped" \(\w+\)\. .* unroll=True'):
        export_tflite(model, tmp_path / "m.tflite", quantize="int8", samples=np.ones((4, 5, 3)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantize": "int8"}, "Give samples="),
        ({"quantize": "int8", "samples": np.ones((4, 2))}, r"Received shape \(4, 2\)"),
        ({"quantize": "int8", "samples": np.ones((1, 3))}, "received 1. Give a few hundred"),
        ({"quantize": "int16x8"}, "Give samples="),
        ({"quantize": "int8", "step": True}, 'with the step signature only: signature="step"'),
        ({"signature": "serving_default"}, "None for whole sequences"),
        ({"signature": "step", "step": True}, "Leave step out"),
        ({"signature": "step", "step": False}, "Leave step out"),
    ],
)
def test_arguments_that_exclude_each_other_are_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        export_tflite(models.dense(), tmp_path / "m.tflite", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_step_only_file_of_a_model_without_a_step_is_refused(tmp_path):
    with pytest.raises(StreamingError, match="has no recurrent layer"):
        export_tflite(models.dense(), tmp_path / "m.tflite", signature="step")
    assert list(tmp_path.iterdir()) == []


def test_an_unmeasured_integer_tensor_is_refused_with_its_layer(tmp_path, monkeypatch):
    def refused(*_, **__):
        line = "Max and min should be recorded during calibration: Failed for tensor m_1/y_1/ArgMax"
        raise RunnerError(line, f"{line}\nEmpty min/max for tensor m_1/y_1/ArgMax\n")

    monkeypatch.setattr(worker_process.WorkerProcess, "load", refused)
    with pytest.raises(
        ConversionError, match=r'real numbers in layer "y" \(Dense\), at m_1/y_1/Arg'
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

    inputs = keras.Input((3,), name="x")
    model = keras.Model(inputs, keras.layers.Lambda(odd, name="odd")(inputs))
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
        'with all operations in integers, output "additive_attention" of the quantized'
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


@pytest.mark.parametrize(("quantize", "share"), [("int8", 0.15), ("int16x8", 0.03)])
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


@pytest.mark.parametrize(("quantize", "share"), [("int8", 0.15), ("int16x8", 0.05)])
def test_files_in_integers_use_the_statistics_of_each_timestep(tmp_path, quantize, share):
    inputs = keras.Input((None, 3), name="x")
    layer = keras_norm.BatchNormGRU(4, max_timesteps=20, return_sequences=True, name="gru")
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
            np.testing.assert_array_equal(states["gru_steps"], [[t // 128, t % 128]])
    assert np.sqrt(np.mean((actual - expected) ** 2)) < share * expected.std()


def test_samples_fill_whole_batches():
    samples = quantization.read_representative(models.dense(), "int8", np.arange(15).reshape(5, 3))
    arrays = quantization.whole_batches(samples, 4)
    np.testing.assert_array_equal(arrays["x"][:, 0], [0, 3, 6, 9, 12, 0, 3, 6])


def test_dynamic_quantization_of_timestep_statistics_needs_samples(tmp_path):
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, keras_norm.BatchNormLSTM(2, max_timesteps=4)(inputs))
    with pytest.raises(ValueError, match=r"statistics of every timestep.*samples="):
        export_tflite(model, tmp_path / "m.tflite", quantize="dynamic")
