"""Runners of SavedModels, in TensorFlow and through its C API."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export import RunnerError
from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner, SavedModelRunner


def test_an_input_of_unknown_rank_is_refused(tmp_path):
    module = tf.Module()
    module.f = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec(None, name="x")])
    signatures = {"serving_default": module.f}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
    with pytest.raises(RunnerError, match='input "x" has an unknown rank'):
        SavedModelRunner(tmp_path / "model")


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
