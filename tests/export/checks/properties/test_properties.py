"""The judgment of recorded outputs, without a model."""

import types

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export.checks.properties.builtin_ops import BuiltInOps
from keras_norm.export.checks.properties.concurrency import Concurrency, ConcurrentCalls
from keras_norm.export.checks.properties.constants import Constants
from keras_norm.export.checks.properties.input_range import ClippedInput, InputRange
from keras_norm.export.checks.properties.padding import LeftPadding, PaddedOutputs, RightPadding
from keras_norm.export.checks.properties.property import Tolerances
from keras_norm.export.checks.properties.repeat import Repeat, RepeatedCall
from keras_norm.export.checks.properties.row_independence import RowIndependence
from keras_norm.export.checks.properties.weights import Effects, Weights, find_changes
from keras_norm.export.compare.input_cases import neighbor_cases, pad_samples
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.input_names import TensorSpec
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm.export.results.constant_difference import ConstantDifference


def tolerances(**atol):
    return Tolerances(Tolerance(0.0, atol), Tolerance(0.0, atol), 0.0)


EXACT = tolerances()


@pytest.fixture
def samples():
    data = np.random.default_rng(0).normal(size=(6, 4, 2))
    return read_samples({"x": TensorSpec("x", (None, None, 2), "float32")}, data)


def judge_rows(run, samples, batch=6):
    calls = neighbor_cases(samples, batch)
    outputs = [(row, case, run(case.inputs)) for row, case in calls]
    return RowIndependence().judge(outputs, EXACT)


def judge_padding(known, run, samples, fill):
    outputs = {side: run(inputs) for side, inputs in pad_samples(samples, {"x": fill}).items()}
    return known.judge(PaddedOutputs(outputs[""], outputs[known.side]), EXACT)


def test_a_row_that_depends_on_its_neighbor_is_not_independent(samples):
    found = judge_rows(lambda i: {"y": i["x"] + np.roll(i["x"], 1, axis=0)}, samples)
    assert found.status == "fail"
    assert found.detail.startswith("row 0 among other rows")
    assert found.meaning == RowIndependence.meaning


def test_a_row_with_another_output_when_alone_is_not_independent(samples):
    found = judge_rows(lambda i: {"y": i["x"] * (1 + (len(i["x"]) == 1))}, samples)
    assert found.detail.startswith("row 0 in a batch of its own")


def test_rows_that_depend_only_on_themselves_are_independent(samples):
    assert judge_rows(lambda i: {"y": i["x"] ** 2}, samples).status == "pass"


def test_an_output_without_a_row_for_each_sample_is_not_independent(samples):
    found = judge_rows(lambda i: {"y": i["x"].mean()}, samples)
    assert found.detail == (
        "output 'y' has the shape (), but needs one row for each of the 6 rows of the batch"
    )


def test_a_batch_of_one_row_cannot_show_row_independence(samples):
    assert judge_rows(lambda i: {"y": i["x"]}, samples, batch=1).status == "not applicable"


def test_right_padding_that_changes_an_output_fails(samples):
    found = judge_padding(RightPadding(), lambda i: {"y": i["x"].mean(axis=1)}, samples, 0.0)
    assert found.status == "fail"


def test_right_padding_that_changes_no_output_passes(samples):
    found = judge_padding(RightPadding(), lambda i: {"y": i["x"].max(axis=1)}, samples, -9.0)
    assert found.status == "pass"


def test_left_padding_that_changes_an_output_differs_without_a_failure(samples):
    found = judge_padding(LeftPadding(), lambda i: {"y": np.cumsum(i["x"], axis=1)}, samples, 1.0)
    assert (found.name, found.status) == ("left padding", "differs")
    assert "3 masked timesteps on the left" in found.detail


def test_output_sequences_are_compared_after_left_padding(samples):
    assert judge_padding(LeftPadding(), lambda i: {"y": i["x"]}, samples, 9.0).status == "pass"


def test_outputs_are_compared_on_every_axis_that_padding_makes_longer(samples):
    def scores(inputs):
        return {"y": inputs["x"] @ inputs["x"].swapaxes(1, 2)}

    assert judge_padding(RightPadding(), scores, samples, 9.0).status == "pass"


def test_a_repeated_call_that_differs_is_located_in_the_data(samples):
    case, other = samples.case([4]), samples.case([0, 1])
    before, after = {"y": np.zeros(1)}, {"y": np.ones(1)}
    assert Repeat().judge(RepeatedCall(case, other, before, before), EXACT).status == "pass"
    found = Repeat().judge(RepeatedCall(case, other, before, after), EXACT)
    assert found.status == "fail"
    assert "sample 4" in found.detail


def test_a_first_call_that_differs_after_all_other_calls_shows_a_changed_weight(samples):
    before, after = {"y": np.zeros(1)}, {"y": np.ones(1)}
    found = Weights().judge(Effects(0, (), samples.case([4]), before, after), EXACT)
    assert (found.name, found.status) == ("weights", "fail")
    assert "sample 4" in found.detail


@pytest.mark.parametrize(("offset", "status"), [(0.0, "pass"), (1e-3, "fail"), (np.nan, "fail")])
def test_one_wrong_output_among_threads_fails(samples, offset, status):
    cases = [samples.case([1]), samples.case([0, 4], 2)]
    expected = [{"y": case.inputs["x"] ** 2} for case in cases]
    highest = [expected[0], {"y": expected[1]["y"] + offset}]
    calls = ConcurrentCalls(cases, expected, 20, expected, highest)
    found = Concurrency().judge(calls, tolerances(y=1e-6))
    assert found.status == status
    assert "from 8 threads" in found.detail


def test_a_runner_without_concurrent_calls_is_not_called_from_threads(samples):
    expected = types.SimpleNamespace(cases=(samples.case([0]),))
    plan = types.SimpleNamespace(expected=expected)
    subject = types.SimpleNamespace(run=lambda inputs: inputs, plan=plan)
    found = Concurrency().measure(subject)
    assert found.status == "not applicable"
    assert "the check runs one call at a time" in found.detail


@pytest.mark.parametrize(
    ("variable", "status"),
    [("0: bn/moving_mean:0", "fail"), ("3: lstm/seed_generator/seed_generator_state:0", "pass")],
)
def test_inference_may_change_a_seed_but_no_weight(samples, variable, status):
    changed = find_changes({variable: "0", "1: kernel:0": "2"}, {variable: "1", "1: kernel:0": "2"})
    found = Weights().judge(Effects(2, changed, samples.case([0]), {}, {}), EXACT)
    assert found.status == status


def judge_ops(path, used):
    run = types.SimpleNamespace(path=path, ops=lambda: used)
    known = BuiltInOps()
    measured = known.measure(types.SimpleNamespace(run=run, unsafe_ops={}))
    return measured if isinstance(measured, PropertyResult) else known.judge(measured, EXACT)


@pytest.fixture
def tflite_file(tmp_path):
    """The beginning of a TFLite file, which identifies the format."""
    path = tmp_path / "model.tflite"
    path.write_bytes(b"\x1c\x00\x00\x00TFL3")
    return path


def test_a_tflite_file_of_builtin_ops_passes(tflite_file):
    used = {"WHILE": ["a"], "CONV_2D": ["b"], "FULLY_CONNECTED": ["c"]}
    assert judge_ops(tflite_file, used).status == "pass"


@pytest.mark.parametrize("op", ["FlexTensorListReserve", "MyOp"])
def test_a_tflite_file_with_a_foreign_op_fails_and_names_the_op(tflite_file, op):
    found = judge_ops(tflite_file, {"WHILE": ["a"], op: ["b"]})
    assert found.status == "fail"
    assert op in found.detail


def test_a_compiled_function_in_a_saved_model_fails(tmp_path):
    module = tf.Module()
    compiled = tf.function(lambda x: x * 2.0, jit_compile=True)
    module.serve = tf.function(
        lambda x: {"y": compiled(x)}, input_signature=[tf.TensorSpec((None,), "float32")]
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    found = judge_ops(tmp_path, SavedModelFile(tmp_path).ops)
    assert found.status == "fail"
    assert "jit_compile" in found.detail


def test_a_function_has_no_ops(tmp_path):
    assert judge_ops(None, {}) == BuiltInOps().not_applicable("a function has no file")


@pytest.mark.parametrize(("difference", "status"), [(0.019, "pass"), (0.021, "fail")])
def test_a_constant_may_differ_by_twice_the_rounding_errors(difference, status):
    found = [
        ConstantDifference("whole", 'layer "a" (Dense)', 0.0, 0.0),
        ConstantDifference("kernel", 'layer "b" (Dense)', difference, 0.01),
    ]
    result = Constants().judge(found, EXACT)
    assert result.status == status
    if status == "fail":
        assert result.detail == (
            "constant 'kernel' of layer \"b\" (Dense) differs from a new export by 0.021; rounding "
            "explains 0.01"
        )


@pytest.mark.parametrize(("share", "status"), [(0.01, "pass"), (0.011, "differs")])
def test_an_input_range_that_clips_more_than_a_hundredth_of_the_data_gives_advice(share, status):
    found = [ClippedInput("x", -1.0, 1.0, share), ClippedInput("state", -9.0, 9.0, 0.0)]
    result = InputRange().judge(found, EXACT)
    assert result.status == status
    assert result.detail == (
        f"{share:.1%} of the values of input 'x' are outside the range of the file, -1 to 1"
    )
    assert (InputRange().advise(result, None) is None) == (status == "pass")
