"""Properties of all runners: equal outputs, conversions of inputs, errors."""

import keras
import numpy as np
import pytest

from keras_norm.export import RunnerError
from keras_norm.export.formats.openvino.openvino_runner import OpenVINORunner
from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner, SavedModelRunner
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models
from tests.export.formats.conftest import DTYPES

KINDS = ("saved_model", "c_api", "tflite")
every_runner = pytest.mark.parametrize("runner", KINDS, indirect=True)
with_openvino = pytest.mark.parametrize(
    "runner", [*KINDS, "openvino", "openvino of tflite"], indirect=True
)


@with_openvino
def test_every_runner_equals_keras_at_any_batch_and_length(in_keras, runner):
    for batch, time in ((1, 4), (7, 9), (2, 1), (1, 4)):
        data = models.tagger_data(batch, time)
        models.assert_same(runner(data), in_keras(data))


@with_openvino
def test_workers_import_their_runtime_only(runner):
    runner(models.tagger_data(1, 2))
    packages = {"tensorflow", "keras", "tf_keras", "keras_norm", "ai_edge_litert", "openvino"}
    runtime = {"SavedModel": "tensorflow", "TFLite": "ai_edge_litert", "OpenVINO": "openvino"}
    imported = {runtime[runner.name]} if runner.name in runtime else set()
    assert set(runner.worker.call("modules")) & packages == imported


@every_runner
def test_runners_list_their_operations(runner):
    op = "FULLY_CONNECTED" if runner.path.suffix else "MatMul"
    assert runner.ops()[op]


@with_openvino
def test_dtypes_are_converted_without_loss(in_keras, runner):
    data = models.tagger_data(2, 3)
    wide = {"features_of_it": data["features_of_it"].astype("float64"), "file": data["file"] + 0}
    wide["file"] = wide["file"].astype("int64")
    models.assert_same(runner(wide), in_keras(data))


@pytest.mark.parametrize("kind", ["keras", *KINDS])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file": np.ones((2, 3))}, "'file' takes int32. Received values of float64"),
        (
            {"features_of_it": np.ones((2, 3, 4))},
            r"shape \(any, any, 3\). Received shape \(2, 3, 4\)",
        ),
        ({"other": np.ones(2)}, "takes the inputs features_of_it, file; received .*other"),
    ],
    ids=["dtype", "shape", "name"],
)
def test_wrong_inputs_are_refused(in_keras, runners, kind, change, message):
    run = in_keras if kind == "keras" else runners[kind]
    with pytest.raises(ValueError, match=message):
        run(models.tagger_data(2, 3) | change)


def test_inputs_on_which_keras_fails_raise_value_error():
    model = models.of(keras.layers.Embedding(5, 2), (None,), name="ids", dtype="int32")
    with pytest.raises(ValueError, match=r"rejects the data: indices\[1,0\] = 7 is not in"):
        KerasRunner(model)({"ids": np.array([[1], [7]])})


@every_runner
def test_a_runner_works_after_a_failed_run(in_keras, runner):
    good = models.tagger_data(2, 3)
    bad = good | {"file": np.ones((2, 4), "int32")}  # the two inputs differ in length
    with pytest.raises(RunnerError, match=r"^[^\n]+$"):
        runner(bad)
    models.assert_same(runner(good), in_keras(good))


@pytest.mark.parametrize("runner", [SavedModelRunner, CApiRunner, OpenVINORunner])
def test_every_dtype_is_accepted_and_bfloat16_becomes_float32(echo, runner):
    if runner is OpenVINORunner:
        pytest.importorskip("openvino")
    model, path = echo
    data = {f"{dtype}_in": np.array([[0.5, 2.0, -3.0]], "f4") for dtype in DTYPES}
    for dtype in ("int32", "int64", "bool"):
        data[f"{dtype}_in"] = data[f"{dtype}_in"].astype(dtype)
    with runner(path) as run:
        actual = run(data)
    models.assert_same(actual, KerasRunner(model)(data), atol=0)
    if runner is not OpenVINORunner:  # it computes in float32 and int32
        expected = {dtype: "float32" if dtype == "bfloat16" else dtype for dtype in DTYPES}
        assert {dtype: actual[dtype].dtype.name for dtype in DTYPES} == expected
