import contextlib
import importlib.util

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export import Step, export_saved_model
from keras_norm.export.exporting.warmup import warmup_requests
from keras_norm.export.formats.saved_model import saved_model_signatures
from keras_norm.export.runners import CApiRunner, KerasRunner
from tests.export import models

predict_pb2 = pytest.importorskip("tensorflow_serving.apis.predict_pb2")
prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")


def data(samples, time=6):
    return np.random.default_rng(1).normal(size=(samples, time, 3)).astype("float32")


def signature_and_inputs(request):
    name = request.model_spec.signature_name
    return name, {n: tf.make_ndarray(tensor) for n, tensor in request.inputs.items()}


@pytest.fixture(scope="module")
def model():
    return models.recurrent()


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("warm") / "served"
    return export_saved_model(
        model,
        path,
        version=1,
        step=True,
        signatures={"sum": lambda inputs: {"sum": keras.ops.sum(model(inputs["x"])[1], axis=1)}},
        warmup=data(40),
    )


@pytest.fixture(scope="module")
def loaded(exported):
    """Every signature, in the loader of TensorFlow Serving."""
    with contextlib.ExitStack() as stack:
        names = saved_model_signatures(exported)
        yield {name: stack.enter_context(CApiRunner(exported, name)) for name in names}


@pytest.fixture(scope="module")
def in_keras(model):
    """The same in Keras."""
    run = KerasRunner(model)
    return {
        "serving_default": run,
        "step": Step(model).joined,
        "sum": lambda inputs: {"sum": run(inputs)["y"].sum(axis=1)},
    }


@pytest.fixture(scope="module")
def logged(exported):
    """The requests as the server reads them, by TensorFlow's own reader of records."""
    file = exported / "assets.extra" / "tf_serving_warmup_requests"
    records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record) for record in records]


def test_each_signature_is_asked_alone_and_together(logged):
    asked = [signature_and_inputs(log.predict_log.request) for log in logged]
    assert [(name, len(inputs["x"])) for name, inputs in asked] == [
        (name, batch) for batch in (1, 1, 1, 32) for name in ("serving_default", "step")
    ]


def test_the_samples_are_the_users_and_the_states_are_zeros(logged):
    (_, whole), (_, first) = (signature_and_inputs(log.predict_log.request) for log in logged[2:4])
    np.testing.assert_array_equal(whole["x"], data(40)[1:2])
    np.testing.assert_array_equal(first["x"], data(40)[1:2, 0])
    np.testing.assert_array_equal(first["hidden_h"], np.zeros((1, 4), "float32"))


def test_no_request_names_a_model(logged):
    assert {log.predict_log.request.model_spec.name for log in logged} == {""}


def test_the_loaded_model_answers_every_request_as_keras_does(loaded, in_keras, logged):
    for log in logged:
        name, inputs = signature_and_inputs(log.predict_log.request)
        models.assert_same(loaded[name](inputs), in_keras[name](inputs))


@pytest.mark.parametrize("name", ["serving_default", "step", "sum"])
def test_every_signature_answers_eight_threads_at_once_as_keras_does(name, loaded, in_keras):
    rng, specs = np.random.default_rng(2), loaded[name].inputs.values()

    def draw(batch):
        shapes = {spec.name: [size or 5 for size in spec.shape[1:]] for spec in specs}
        return {n: rng.normal(size=(batch, *s)).astype("float32") for n, s in shapes.items()}

    cases = [draw(batch) for batch in (1, 4, 2)]
    calls, lowest, highest = loaded[name].run_at_once(cases, threads=8, seconds=0.3)
    assert calls >= 8
    for case, low, high in zip(cases, lowest, highest, strict=True):
        models.assert_same(low, in_keras[name](case))
        models.assert_same(high, in_keras[name](case))


def test_types_and_shapes_are_those_of_the_signature():
    *_, request = warmup_requests(models.tagger(), models.tagger_data(5, 4))
    tensors = {
        name: (tf.dtypes.as_dtype(t.dtype).name, [d.size for d in t.tensor_shape.dim])
        for name, t in request.inputs.items()
    }
    assert tensors == {"features_of_it": ("float32", [5, 4, 3]), "file": ("int32", [5, 4])}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_every_precision_keeps_its_type(dtype):
    inputs = keras.Input((3,), name="x", dtype=dtype)
    model = keras.Model(inputs, keras.layers.Dense(2, dtype=dtype)(inputs))
    *_, request = warmup_requests(model, np.ones((2, 3)))
    assert tf.dtypes.as_dtype(request.inputs["x"].dtype).name == dtype


def test_one_sample_is_enough():
    requests = warmup_requests(models.dense(), np.ones((1, 3)))
    assert {tf.make_ndarray(request.inputs["x"]).shape for request in requests} == {(1, 3)}


def test_a_fixed_batch_is_one_request_of_that_batch():
    inputs = keras.Input(batch_shape=(4, 3), name="x")
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    (request,) = warmup_requests(model, np.ones((2, 3)))
    assert tf.make_ndarray(request.inputs["x"]).shape == (4, 3)


def test_samples_that_the_model_refuses_are_refused_before_anything_is_written(tmp_path):
    inputs = keras.Input((None, 3), name="x")
    model = keras.Model(inputs, keras.layers.Conv1D(2, 5)(inputs))
    with pytest.raises(ValueError, match="the model refuses the samples given as warmup: "):
        export_saved_model(model, tmp_path / "new" / "model", warmup=data(2, time=3))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_warmup_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(tf.io, "TFRecordWriter", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export_saved_model(models.dense(), tmp_path / "model", warmup=np.ones((2, 3)))
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_only_warmup_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "\.\[serving\]"'):
        export_saved_model(models.dense(), tmp_path / "model", warmup=np.ones((2, 3)))
    assert list(tmp_path.iterdir()) == []
