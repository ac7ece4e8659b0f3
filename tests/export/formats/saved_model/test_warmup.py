import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export import Step, export_saved_model
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm_verify import read_golden_cases
from tests.export import models

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
    """Export with a step, warmup requests, and a signature that calls layers of the model."""

    def add_up(inputs):
        y = model.get_layer("y")(model.get_layer("hidden")(inputs["x"]))
        return {"sum": keras.ops.sum(y, axis=1)}

    path = tmp_path_factory.mktemp("warm") / "served"
    options = {"step": True, "samples": data(40), "warmup": True}
    return export_saved_model(model, path, version=1, signatures={"sum": add_up}, **options)


@pytest.fixture(scope="module")
def loaded(exported):
    """Load every signature in the loader of TensorFlow Serving."""
    with contextlib.ExitStack() as stack:
        names = SavedModelFile(exported).signatures
        yield {name: stack.enter_context(CApiRunner(exported, name)) for name in names}


@pytest.fixture(scope="module")
def in_keras(model):
    """Return the Keras outputs for every signature."""
    run = KerasRunner(model)
    return {
        "serving_default": run,
        "step": Step(model).joined,
        "sum": lambda inputs: {"sum": run(inputs)["y"].sum(axis=1)},
    }


def requests(exported):
    """Read the warmup requests with TensorFlow's reader of records, as the server does."""
    file = exported / "assets.extra" / "tf_serving_warmup_requests"
    records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    logs = [prediction_log_pb2.PredictionLog.FromString(record) for record in records]
    return [log.predict_log.request for log in logs]


@pytest.fixture(scope="module")
def logged(exported):
    return requests(exported)


def test_the_requests_are_the_golden_cases_with_samples_and_states_of_zeros(logged, exported):
    assert {request.model_spec.name for request in logged} == {""}
    cases = read_golden_cases(exported).cases
    asked = [signature_and_inputs(request) for request in logged]
    assert [name for name, _ in asked] == ["serving_default", "serving_default", "step"]
    for (_, inputs), case in zip(asked, cases, strict=True):
        for name, array in inputs.items():
            first = case.inputs[name][:, 0] if name in case.sequences else case.inputs[name]
            np.testing.assert_array_equal(array, first)
    (_, one), (_, three), (_, first) = asked
    np.testing.assert_array_equal(one["x"], data(40)[:1, :3])
    np.testing.assert_array_equal(three["x"], data(40)[:3])
    np.testing.assert_array_equal(first["x"], data(40)[:3, 0])
    np.testing.assert_array_equal(first["hidden_h"], np.zeros((3, 4), "float32"))


@pytest.mark.parametrize("name", ["serving_default", "step", "sum"])
def test_eight_threads_get_the_outputs_of_keras_from_every_signature(name, loaded, in_keras):
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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_requests_have_the_dtypes_and_shapes_of_the_signature(dtype, tmp_path):
    inputs = keras.Input((3,), name="x", dtype=dtype), keras.Input((None,), 4, "int64", name="ids")
    model = keras.Model(inputs, keras.layers.Lambda(lambda x: x[0], output_shape=(3,))(inputs))
    for request in requests(export_saved_model(model, tmp_path / "model", warmup=True)):
        types = {n: tf.dtypes.as_dtype(t.dtype).name for n, t in request.inputs.items()}
        assert types == {"x": dtype, "ids": "int64"}
        assert tf.make_ndarray(request.inputs["x"]).shape == (4, 3)


def test_warmup_is_refused_without_test_inputs(tmp_path):
    inputs = keras.Input((3,), name="x")
    model = keras.Model(inputs, keras.ops.log(-keras.ops.square(inputs) - 1.0))
    with pytest.raises(ValueError, match=r"give samples=\{input name: array\}"):
        export_saved_model(model, tmp_path / "new" / "model", warmup=True)
    assert list(tmp_path.iterdir()) == []
