"""SavedModels through TensorFlow's C API: what the other runner of them does not do."""

import numpy as np
import tensorflow as tf

from keras_norm.export.runners import CApiRunner
from tests.export import models


def test_eight_threads_share_one_loaded_model(in_keras, runners):
    cases = [models.tagger_data(batch, time) for batch, time in ((1, 4), (7, 9), (2, 1))]
    calls, lowest, highest = runners["c_api"].run_at_once(cases, threads=8, seconds=0.5)
    assert calls >= 8
    for case, low, high in zip(cases, lowest, highest, strict=True):
        models.assert_same(low, in_keras(case))
        models.assert_same(high, in_keras(case))


def test_threads_show_what_calls_share(tmp_path):
    """A scratch variable, written and read in every call, is right as long as calls take turns."""
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
        _, lowest, highest = run.run_at_once(cases, threads=8, seconds=0.5)
    assert highest[0]["y"] == 2.0 or lowest[1]["y"] == 1.0
