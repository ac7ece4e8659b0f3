import types

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export.checks.properties import (
    again,
    concurrency,
    padding,
    plain_ops,
    row_independence,
    unchanged,
)
from keras_norm.export.checks.run_artifacts import changed_weights, ops
from keras_norm.export.compare.input_cases import companions, padded, read_samples
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.signature import TensorSpec

EXACT = Tolerance(0.0, {})


@pytest.fixture
def samples():
    data = np.random.default_rng(0).normal(size=(6, 4, 2))
    return read_samples({"x": TensorSpec("x", (None, None, 2), "float32")}, data)


def rows_of(run, samples):
    asked = companions(samples, 6)
    return row_independence(asked, [run(one.case.inputs) for one in asked], EXACT)


def padded_on(side, run, samples, fill):
    answers = {side: run(inputs) for side, inputs in padded(samples, {"x": fill}).items()}
    return padding(side, answers[""], answers[side], EXACT)


def test_a_row_that_takes_from_its_neighbor_is_not_independent(samples):
    found = rows_of(lambda i: {"y": i["x"] + np.roll(i["x"], 1, axis=0)}, samples)
    assert found.status == "fail"
    assert found.detail.startswith("row 0 among other rows")


def test_a_row_that_is_another_alone_is_not_independent(samples):
    found = rows_of(lambda i: {"y": i["x"] * (1 + (len(i["x"]) == 1))}, samples)
    assert found.detail.startswith("row 0 alone")


def test_rows_that_know_only_themselves_are_independent(samples):
    assert rows_of(lambda i: {"y": i["x"] ** 2}, samples).status == "pass"


def test_an_output_without_a_row_for_each_sample_is_not_independent(samples):
    found = rows_of(lambda i: {"y": i["x"].mean()}, samples)
    assert "has no row for each of 6" in found.detail


def test_padding_that_counts_is_found(samples):
    assert padded_on("right", lambda i: {"y": i["x"].mean(axis=1)}, samples, 0.0).status == "fail"


def test_padding_that_is_summed_away_passes(samples):
    assert padded_on("right", lambda i: {"y": i["x"].max(axis=1)}, samples, -9.0).status == "pass"


def test_left_padding_that_counts_differs_and_is_no_fault(samples):
    found = padded_on("left", lambda i: {"y": np.cumsum(i["x"], axis=1)}, samples, 1.0)
    assert (found.name, found.status) == ("left padding", "differs")
    assert "3 masked steps on the left" in found.detail


def test_sequences_are_compared_on_the_steps_after_left_padding(samples):
    assert padded_on("left", lambda i: {"y": i["x"]}, samples, 9.0).status == "pass"


def test_a_repeated_call_that_differs_is_located_in_the_data(samples):
    first, other = samples.case([4]), samples.case([0, 1])
    before, after = {"y": np.zeros(1)}, {"y": np.ones(1)}
    assert again(first, other, before, before, EXACT).status == "pass"
    found = again(first, other, before, after, EXACT)
    assert found.status == "fail"
    assert "sample 4" in found.detail
    after_all = again(first, None, before, after, EXACT)
    assert (after_all.name, after_all.status) == ("weights", "fail")


@pytest.mark.parametrize(("offset", "status"), [(0.0, "pass"), (1e-3, "fail"), (np.nan, "fail")])
def test_one_wrong_answer_among_threads_is_found(samples, offset, status):
    cases = [samples.case([1]), samples.case([0, 4], 2)]
    expected = [{"y": case.inputs["x"] ** 2} for case in cases]
    highest = [expected[0], {"y": expected[1]["y"] + offset}]
    found = concurrency(cases, expected, (20, expected, highest), Tolerance(0.0, {"y": 1e-6}))
    assert found.status == status
    assert "8 threads at once" in found.detail


def test_a_function_is_not_called_by_many_threads():
    assert concurrency([], [], None, EXACT).status == "not applicable"


@pytest.mark.parametrize(
    ("variable", "status"),
    [("0: bn/moving_mean:0", "fail"), ("3: lstm/seed_generator/seed_generator_state:0", "pass")],
)
def test_inference_may_move_a_seed_and_no_weight(variable, status):
    changed = changed_weights(
        {variable: "0", "1: kernel:0": "2"}, {variable: "1", "1: kernel:0": "2"}
    )
    assert unchanged(changed, 2).status == status


def ops_of(path, used):
    return ops(types.SimpleNamespace(path=path, ops=lambda: used))


@pytest.fixture
def tflite_file(tmp_path):
    """The beginning of a TFLite file, by which it is recognized."""
    path = tmp_path / "model.tflite"
    path.write_bytes(b"\x1c\x00\x00\x00TFL3")
    return path


def test_a_tflite_file_of_builtins_passes(tflite_file):
    used = {"WHILE": ["a"], "CONV_2D": ["b"], "FULLY_CONNECTED": ["c"]}
    assert plain_ops(*ops_of(tflite_file, used)).status == "pass"


@pytest.mark.parametrize("op", ["FlexTensorListReserve", "MyOp"])
def test_a_tflite_file_with_another_op_fails_by_its_name(tflite_file, op):
    found = plain_ops(*ops_of(tflite_file, {"WHILE": ["a"], op: ["b"]}))
    assert found.status == "fail"
    assert op in found.detail


def test_a_compiled_function_in_a_saved_model_fails(tmp_path):
    module = tf.Module()
    compiled = tf.function(lambda x: x * 2.0, jit_compile=True)
    module.serve = tf.function(
        lambda x: {"y": compiled(x)}, input_signature=[tf.TensorSpec((None,), "float32")]
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    found = plain_ops(*ops_of(tmp_path, SavedModelFile(tmp_path).ops))
    assert found.status == "fail"
    assert "jit_compile" in found.detail


def test_a_function_has_no_ops_to_test():
    assert plain_ops(*ops(lambda inputs: inputs)).status == "not applicable"


def test_sequences_are_compared_on_every_axis_that_padding_made_longer(samples):
    scores = padded_on("right", lambda i: {"y": i["x"] @ i["x"].swapaxes(1, 2)}, samples, 9.0)
    assert scores.status == "pass"


def test_one_row_has_no_companions(samples):
    asked = companions(samples, 1)
    found = row_independence(asked, [{"y": one.case.inputs["x"]} for one in asked], EXACT)
    assert found.status == "not applicable"
