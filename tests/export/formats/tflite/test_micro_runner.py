"""TensorFlow Lite Micro runs the step of a recurrent model, and is compared with Keras."""

import numpy as np
import pytest

from keras_norm.export import RunnerError, Step
from keras_norm.export.formats.tflite import tflite_runner
from keras_norm.export.formats.tflite.tflite_runner import MicroRunner
from tests.export import models
from tests.export.rewritten import rewritten

pytest.importorskip("tflite_micro")


@pytest.fixture(scope="module")
def micro(step_only):
    with MicroRunner(step_only[1], "step") as run:
        yield run


def test_streams_run_one_after_another_in_the_worker(step_only, micro):
    model, _ = step_only
    x = np.random.default_rng(1).normal(size=(2, 50, 3)).astype("float32")
    hidden, y = model.predict(x, verbose=0)
    models.assert_same(Step(model).over_time(micro, {"x": x}), {"hidden": hidden, "y": y})
    assert micro.seconds() > 0


def test_the_time_limit_holds_for_every_tried_arena(step_only):
    with MicroRunner(step_only[1], "step", timeout=70.0) as run:
        assert run.arena > tflite_runner.SMALLEST, "no second worker was started"
        assert run.worker.timeout == 70.0


def test_an_error_that_no_arena_fixes_is_raised_at_once(step_only, monkeypatch):
    tried = []

    def fail(self, request):
        tried.append(request["arena"])
        raise RunnerError("m.tflite: the worker process did not reply within 300 s")

    monkeypatch.setattr(MicroRunner, "_load_file", fail)
    with pytest.raises(RunnerError, match="did not reply within 300 s"):
        MicroRunner(step_only[1], "step")
    assert len(tried) == 1


def test_a_missing_operation_is_named(step_only, tmp_path):
    def replace_an_operation(model, schema):
        code = model.operatorCodes[0]
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.TOPK_V2

    file = rewritten(step_only[1], tmp_path / "m.tflite", replace_an_operation)
    with pytest.raises(RunnerError, match=r"m\.tflite: .* has no operation TOPK_V2"):
        MicroRunner(file, "step")


def test_a_model_too_large_for_every_arena_is_refused(step_only, monkeypatch):
    monkeypatch.setattr(tflite_runner, "SMALLEST", 256)
    monkeypatch.setattr(tflite_runner, "LARGEST", 256)
    with pytest.raises(RunnerError, match=r"no memory arena of up to 256 bytes is enough: "):
        MicroRunner(step_only[1], "step")


def test_a_signature_outside_the_main_graph_is_refused(step_only):
    with pytest.raises(RunnerError, match="no signature serving_default in its main graph"):
        MicroRunner(step_only[1])
