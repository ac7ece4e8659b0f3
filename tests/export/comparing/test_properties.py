import types

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export.comparing.cases import read_samples
from keras_norm.export.comparing.properties import (
    Tolerance,
    concurrency,
    left_padding,
    padding,
    plain_ops,
    repeat,
    row_independence,
    unchanged_answer,
    weights_state,
)
from keras_norm.export.formats.saved_model import saved_model_ops
from keras_norm.export.signature import TensorSpec

EXACT = Tolerance(0.0, 0.0)


@pytest.fixture
def samples():
    data = np.random.default_rng(0).normal(size=(6, 4, 2))
    return read_samples({"x": TensorSpec("x", (None, None, 2), "float32")}, data)


def test_a_row_that_takes_from_its_neighbour_is_not_independent(samples):
    def run(inputs):
        return {"y": inputs["x"] + np.roll(inputs["x"], 1, axis=0)}

    found = row_independence(run, samples, 6, EXACT)
    assert found.status == "fail"
    assert found.detail.startswith("row 0 ")


def test_rows_that_know_only_themselves_are_independent(samples):
    assert row_independence(lambda i: {"y": i["x"] ** 2}, samples, 6, EXACT).status == "pass"


def test_an_output_without_a_row_for_each_sample_is_not_independent(samples):
    found = row_independence(lambda i: {"y": i["x"].mean()}, samples, 6, EXACT)
    assert "has no row for each of 6" in found.detail


def test_padding_that_counts_is_found(samples):
    found = padding(lambda i: {"y": i["x"].mean(axis=1)}, samples, {"x": 0.0}, EXACT)
    assert found.status == "fail"


def test_padding_that_is_summed_away_passes(samples):
    assert (
        padding(lambda i: {"y": i["x"].max(axis=1)}, samples, {"x": -9.0}, EXACT).status == "pass"
    )


def test_left_padding_that_counts_differs_and_is_no_fault(samples):
    found = left_padding(lambda i: {"y": np.cumsum(i["x"], axis=1)}, samples, {"x": 1.0}, EXACT)
    assert (found.name, found.status) == ("left padding", "differs")
    assert "3 masked steps on the left" in found.detail


def test_sequences_are_compared_on_the_steps_after_left_padding(samples):
    assert left_padding(lambda i: {"y": i["x"]}, samples, {"x": 9.0}, EXACT).status == "pass"


def test_a_repeated_call_that_differs_is_located_in_the_data(samples):
    calls = []

    def run(inputs):
        calls.append(1)
        return {"y": inputs["x"] * (1 + (len(calls) == 3))}

    found = repeat(run, samples.case([4]), samples.case([0, 1]), EXACT)
    assert found.status == "fail"
    assert "sample 4" in found.detail


class AtOnce:
    """Answers `offset` more in one of the calls."""

    def __init__(self, offset):
        self.offset = offset

    def run_at_once(self, cases, threads, seconds):
        lowest = [{"y": case["x"] ** 2} for case in cases]
        highest = [{"y": case["x"] ** 2} for case in cases]
        highest[-1]["y"] = highest[-1]["y"] + self.offset
        return 20, lowest, highest


@pytest.mark.parametrize(("offset", "status"), [(0.0, "pass"), (1e-3, "fail"), (np.nan, "fail")])
def test_one_wrong_answer_among_threads_is_found(samples, offset, status):
    cases = [samples.case([1]), samples.case([0, 4], 2)]
    expected = [{"y": case.inputs["x"] ** 2} for case in cases]
    found = concurrency(AtOnce(offset), cases, expected, Tolerance(0.0, {"y": 1e-6}))
    assert found.status == status
    assert "8 threads at once" in found.detail


def test_a_function_is_not_called_by_many_threads(samples):
    cases = [samples.case([1])]
    found = concurrency(lambda inputs: inputs, cases, [cases[0].inputs], EXACT)
    assert found.status == "not applicable"


class Drifting:
    """Changes one variable at every call; its answers stay."""

    def __init__(self, variable):
        self.calls = {variable: "0"}

    def __call__(self, inputs):
        self.calls = {name: f"{digest}1" for name, digest in self.calls.items()}
        return {"y": inputs["x"]}

    def state(self):
        return self.calls


@pytest.mark.parametrize(
    ("variable", "status"),
    [("0: bn/moving_mean:0", "fail"), ("3: lstm/seed_generator/seed_generator_state:0", "pass")],
)
def test_inference_may_move_a_seed_and_no_weight(samples, variable, status):
    run, case = Drifting(variable), samples.case([0, 1])
    state = weights_state(run)
    found = unchanged_answer(run, case, run(case.inputs), state, EXACT)
    assert found.status == status


def runner(path, ops):
    return types.SimpleNamespace(path=path, ops=lambda: ops)


def test_a_tflite_file_of_builtins_passes(tmp_path):
    ops = {"WHILE": ["a"], "CONV_2D": ["b"], "FULLY_CONNECTED": ["c"]}
    assert plain_ops(runner(tmp_path / "model.tflite", ops)).status == "pass"


@pytest.mark.parametrize("op", ["FlexTensorListReserve", "MyOp"])
def test_a_tflite_file_with_another_op_fails_by_its_name(tmp_path, op):
    found = plain_ops(runner(tmp_path / "model.tflite", {"WHILE": ["a"], op: ["b"]}))
    assert found.status == "fail"
    assert op in found.detail


def test_a_compiled_function_in_a_saved_model_fails(tmp_path):
    module = tf.Module()
    compiled = tf.function(lambda x: x * 2.0, jit_compile=True)
    module.serve = tf.function(
        lambda x: {"y": compiled(x)}, input_signature=[tf.TensorSpec((None,), "float32")]
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    found = plain_ops(runner(tmp_path, saved_model_ops(tmp_path)))
    assert found.status == "fail"
    assert "jit_compile" in found.detail


def test_a_function_has_no_ops_to_test():
    assert plain_ops(lambda inputs: inputs).status == "not applicable"
