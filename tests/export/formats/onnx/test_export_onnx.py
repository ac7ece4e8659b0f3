import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import UnsupportedOpError, check, export_onnx
from keras_norm.export.checks.artifacts import sources
from keras_norm.export.formats.onnx.onnx_runner import ONNXRunner
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tf2onnx")


@pytest.fixture(scope="module")
def model():
    """Build a bidirectional model with masked ids and features, and outputs by key."""
    features = keras.Input((None, 3), name="Features of it")
    ids = keras.Input((None,), dtype="int32", name="file")
    h = keras.layers.Embedding(7, 3, mask_zero=True)(ids)
    masked = keras.layers.Masking()(features)
    h = keras.layers.Add()([h, keras_norm.BatchNormalization()(masked)])
    h = keras.layers.Bidirectional(keras_norm.LayerNormSimpleRNN(4, return_sequences=True))(h)
    last = keras_norm.BatchNormSimpleRNN(3, max_timesteps=5)(h)
    outputs = {"tags/all": keras.layers.Dense(2)(h), "last": last, "echo": features}
    return keras.Model([features, ids], outputs)


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    return export_onnx(model, tmp_path_factory.mktemp("new") / "folder" / "model.onnx")


def padded(batch, time):
    data = models.tagger_data(batch, time)
    for name in data:
        data[name][:, time // 2 + 1 :] = 0
    return {"Features_of_it": data["features_of_it"], "file": data["file"]}


def test_a_file_equals_keras_at_any_batch_and_length(model, path):
    keras_run = KerasRunner(model)
    with ONNXRunner(path) as run:
        assert {spec.shape for spec in run.inputs.values()} == {(None, None), (None, None, 3)}
        for batch, time in ((1, 4), (7, 9), (2, 1), (1, 4)):
            data = padded(batch, time)
            models.assert_same(run(data), keras_run(data), atol=1e-4)


def test_a_users_norm_is_exact_for_equal_values(tmp_path):
    """For digital silence all logarithms are equal, so the output of a norm is exactly 0."""

    def norms(x):
        centered = x - keras.ops.mean(x, axis=-1, keepdims=True)
        variance = keras.ops.mean(keras.ops.square(centered), axis=-1, keepdims=True)
        y = centered / keras.ops.sqrt(variance + 1e-7)
        return [y, keras.layers.LayerNormalization()(x)]

    inputs = [keras.Input((None, 257), name="x"), keras.Input((257,), name="rows")]
    model = keras.Model(inputs, [y for x in inputs for y in norms(x)])
    rows = np.log(np.float32([1e-7, 1e-12, 1.1, 2e3]))[:, None] * np.ones((4, 257), "float32")
    with ONNXRunner(export_onnx(model, tmp_path / "model.onnx")) as run:
        for name, value in run({"x": np.stack([rows] * 6, axis=1), "rows": rows}).items():
            np.testing.assert_allclose(value, 0.0, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.usefixtures("unmeasured_rounding")
def test_check_names_the_layer_of_a_wrong_weight(tmp_path):
    layers = (keras_norm.LayerNormalization(), keras.layers.Dense(4, name="hidden"))
    model = models.stack(*layers, keras.layers.Dense(2))
    data = np.random.default_rng(0).normal(size=(5, 6, 3)).astype("float32")
    path = export_onnx(model, tmp_path / "model.onnx")
    assert check(model, path, data, batch_sizes=[5], lengths=[6])
    graph = onnx.load(path)
    (kernel,) = (tensor for tensor in graph.graph.initializer if tensor.dims == [3, 4])
    wrong = onnx.numpy_helper.to_array(kernel) * 1.5
    kernel.CopyFrom(onnx.numpy_helper.from_array(wrong, kernel.name))
    onnx.save(graph, path)
    report = check(model, path, data, batch_sizes=[5], lengths=[6])
    assert {failure.check for failure in report.failures} >= {"values"}
    assert report.artifacts[0].first_difference.layer == "hidden"


def test_check_uses_one_runner_and_the_stored_precision(path, tmp_path):
    (source,) = sources(path)
    assert (source.name, source.precision) == ("model.onnx", "float32")
    graph = onnx.load(path)
    graph.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(3, "float16"), "half"))
    onnx.save(graph, tmp_path / "half.onnx")
    assert sources(tmp_path / "half.onnx")[0].precision == "float16"


def test_a_damaged_file_is_refused_before_the_check(path, tmp_path):
    (tmp_path / "damaged.onnx").write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"damaged.onnx is damaged"):
        sources(tmp_path / "damaged.onnx")


def test_an_operation_missing_in_onnx_is_refused_with_its_layer(tmp_path):
    model = models.with_function(lambda x: keras.ops.cast(keras.ops.view(x, "int32") > 0, "int32"))
    with pytest.raises(UnsupportedOpError, match=r'Bitcast in layer "odd" \(Lambda\)'):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


class Scaled(keras.layers.Layer):
    """Has a constant that is neither a weight nor part of a graph."""

    def build(self, shape):
        self.scale = tf.constant(np.arange(1, 1 + shape[-1], dtype="float32"))

    def call(self, x):
        return x * self.scale


def test_a_constant_of_a_layer_is_not_an_input_and_golden_cases_false_writes_none(tmp_path):
    model = models.stack(Scaled(), keras.layers.Dense(2))
    path = export_onnx(model, tmp_path / "m.onnx", golden_cases=False)
    assert list(tmp_path.iterdir()) == [path]
    with ONNXRunner(path) as run:
        assert list(run.inputs) == ["x"]
        data = {"x": np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")}
        models.assert_same(run(data), KerasRunner(model)(data))
