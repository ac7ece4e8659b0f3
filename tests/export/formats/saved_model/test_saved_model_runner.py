"""Runners of SavedModels, in TensorFlow and through its C API."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export import RunnerError
from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner, SavedModelRunner
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models
from tests.export.formats.conftest import DTYPES


@pytest.mark.parametrize("runner", [SavedModelRunner, CApiRunner])
def test_every_dtype_is_accepted_and_bfloat16_becomes_float32(echo, runner):
    model, path = echo
    data = {f"{dtype}_in": np.array([[0.1, 2.0, -3.0]]).astype("f4") for dtype in DTYPES}
    for dtype in ("int32", "int64", "bool"):
        data[f"{dtype}_in"] = data[f"{dtype}_in"].astype(dtype)
    with runner(path) as run:
        actual = run(data)
    models.assert_same(actual, KerasRunner(model)(data), atol=0)
    expected = {dtype: "float32" if dtype == "bfloat16" else dtype for dtype in DTYPES}
    assert {dtype: actual[dtype].dtype.name for dtype in DTYPES} == expected


@pytest.mark.parametrize("runner", [SavedModelRunner, CApiRunner])
def test_a_saved_model_without_variables_raises_one_line(exported, tmp_path, runner):
    shutil.copytree(exported["saved_model"], tmp_path / "model")
    shutil.rmtree(tmp_path / "model" / "variables")

    def load_and_run():
        with runner(tmp_path / "model") as run:  # the C API loads it, and misses them at the run
            run(models.tagger_data(1, 2))

    with pytest.raises(RunnerError, match=r"^SavedModel[^\n]* [^\n]*variable[^\n]*$"):
        load_and_run()


def test_an_input_of_unknown_rank_is_refused(tmp_path):
    module = tf.Module()
    module.f = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec(None, name="x")])
    signatures = {"serving_default": module.f}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
    with pytest.raises(RunnerError, match='input "x" has an unknown rank'):
        SavedModelRunner(tmp_path / "model")


def test_eight_threads_share_one_loaded_model(in_keras, runners):
    cases = [models.tagger_data(batch, time) for batch, time in ((1, 4), (7, 9), (2, 1))]
    calls, lowest, highest = runners["c_api"].run_at_once(cases, threads=8, seconds=0.5)
    assert calls >= 8
    for case, low, high in zip(cases, lowest, highest, strict=True):
        models.assert_same(low, in_keras(case))
        models.assert_same(high, in_keras(case))


def test_threads_find_state_that_calls_share(tmp_path):
    """A variable that every call writes and reads is correct only if calls do not overlap."""
    module = tf.Module()
    module.scratch = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None], name="x")])
    def serve(x):
        module.scratch.assign(x[0])
        busy = tf.fill([300, 300], x[0])
        product = busy @ busy
        with tf.control_dependencies([product]):
            return {"y": module.scratch.read_value() + 0 * product[0, 0]}

    tf.saved_model.save(module, str(tmp_path / "m"), signatures={"serving_default": serve})
    cases = [{"x": np.array([value])} for value in (1.0, 2.0)]
    with CApiRunner(tmp_path / "m") as run:
        assert [run(case)["y"] for case in cases] == [1.0, 2.0]
        _, lowest, highest = run.run_at_once(cases, threads=8, seconds=1.0)
    assert highest[0]["y"] == 2.0 or lowest[1]["y"] == 1.0
