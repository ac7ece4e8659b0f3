"""The properties, tested on functions in place of models."""

import contextlib
import types

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export.checks.artifacts import FunctionRunner
from keras_norm.export.checks.properties import input_range, padding
from keras_norm.export.checks.properties.builtin_ops import BuiltInOps
from keras_norm.export.checks.properties.concurrency import Concurrency
from keras_norm.export.checks.properties.constants import Constants
from keras_norm.export.checks.properties.input_range import InputRange
from keras_norm.export.checks.properties.padding import LeftPadding, RightPadding
from keras_norm.export.checks.properties.repeat import Repeat
from keras_norm.export.checks.properties.row_independence import RowIndependence
from keras_norm.export.checks.properties.streaming import Streaming
from keras_norm.export.checks.properties.weights import Weights
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.formats.artifact_format import ConstantDifference
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.input_names import TensorSpec

EXACT = Tolerance(0.0, {})


def subject_of(run, cases=(), plan=(), **fields):
    """Return a subject with recorded outputs, and a plan of test inputs and other fields."""
    expected = types.SimpleNamespace(cases=cases, batch=None)
    plan = types.SimpleNamespace(**{"expected": expected, "model": None} | dict(plan))
    fields = {"variables": {}, "is_keras_model": False} | fields
    return types.SimpleNamespace(run=run, plan=plan, **fields)


@pytest.fixture
def samples():
    data = np.random.default_rng(0).normal(size=(6, 4, 2))
    return read_samples({"x": TensorSpec("x", (None, None, 2), "float32")}, data)


@pytest.mark.parametrize(
    ("function", "batch", "status", "detail"),
    [
        (lambda x: x + np.roll(x, 1, axis=0), 6, "fail", "row 0 among copies of itself"),
        (lambda x: x * (1 + (len(x) == 1)), 6, "fail", "row 0 alone"),
        (lambda x: x**2, 6, "pass", ""),
        (lambda x: x.mean(), 6, "fail", "output 'y' has the shape (), but needs one row for each"),
        (lambda x: x, 1, "not applicable", ""),
    ],
)
def test_rows_are_independent_if_no_row_reads_its_neighbors(
    samples, function, batch, status, detail
):
    subject = subject_of(lambda inputs: {"y": function(inputs["x"])}, plan={"samples": samples})
    subject.plan.expected.batch = batch
    found = RowIndependence().test(subject, EXACT)
    assert (found.status, found.meaning == RowIndependence.meaning) == (status, status == "fail")
    assert found.detail.startswith(detail)
    assert detail[:3] != "row" or "(sample 0, " in found.detail  # the number of the user's sample


def test_a_static_batch_of_few_samples_shows_that_rows_depend_on_the_mean_of_the_batch(samples):
    samples = read_samples({"x": TensorSpec("x", (5, None, 2), "float32")}, samples.arrays["x"][:2])
    subject = subject_of(lambda inputs: {"y": inputs["x"] - inputs["x"].mean(axis=0)})
    subject.plan.samples, subject.plan.expected.batch = samples, 5
    assert RowIndependence().test(subject, EXACT).status == "fail"


@pytest.mark.parametrize(
    ("known", "function", "fill", "status"),
    [
        (RightPadding(), lambda x: x.mean(axis=1), 0.0, "fail"),
        (RightPadding(), lambda x: x.max(axis=1), -9.0, "pass"),
        (RightPadding(), lambda x: x @ x.swapaxes(1, 2), 9.0, "pass"),  # two axes become longer
        (LeftPadding(), lambda x: np.cumsum(x, axis=1), 1.0, "differs"),
        (LeftPadding(), lambda x: x, 9.0, "pass"),
    ],
)
def test_outputs_at_unmasked_timesteps_are_compared_after_padding(
    samples, known, function, fill, status, monkeypatch
):
    monkeypatch.setattr(padding, "mask_fills", lambda model: {"x": fill})
    subject = subject_of(lambda inputs: {"y": function(inputs["x"])}, plan={"samples": samples})
    found = known.test(subject, EXACT)
    assert (found.name, found.status) == (known.name, status)
    if status == "differs":
        assert "3 masked timesteps on the left" in found.detail


@pytest.mark.parametrize(("offset", "status"), [(0.0, "pass"), (1.0, "fail")])
def test_a_repeated_call_that_differs_is_located_in_the_data(samples, offset, status):
    calls = []

    def run(inputs):
        calls.append(inputs)
        return {"y": np.full(1, offset)}

    cases = [samples.case([0, 1]), samples.case([4])]
    before = [{"y": np.zeros(2)}, {"y": np.zeros(1)}]
    found = Repeat().test(subject_of(run, cases, outputs=before), EXACT)
    assert calls == [cases[0].inputs, cases[1].inputs]
    assert found.status == status
    if status == "fail":
        assert found.detail.startswith("batch 1, length 4: after a call with batch 2, length 4, ")
        assert "sample 4" in found.detail


def test_only_a_step_is_compared_by_the_limit_of_8_bit_files():
    """Two calls of one file are compared by atol, and a file with the Keras model by the limit."""
    tolerance, zeros = Tolerance(0.0, {"y": 0.1}, limits={"y": 10.0}), {"y": np.zeros(2)}
    wrong = {"y": np.ones(2)}
    step = types.SimpleNamespace(inputs={}, states={}, over_time=lambda run, inputs: wrong)
    source = types.SimpleNamespace(is_single_step=False)
    source.open = lambda name, worker: contextlib.nullcontext(types.SimpleNamespace(inputs={}))
    plan = {"stream": lambda one_by_one: (step, {}, zeros, 4)}
    subject = subject_of(lambda inputs: wrong, plan=plan, source=source, outputs=[zeros])
    assert Streaming().test(subject, tolerance).status == "pass"
    case = types.SimpleNamespace(name="", inputs={}, rows=None)
    subject.plan.expected = types.SimpleNamespace(cases=[case])
    assert Repeat().test(subject, tolerance).status == "fail"


class FakeRunner:
    """A runner with given digests of its variables, whose outputs from threads have an error."""

    def __init__(self, outputs, digests=(), offset=0.0):
        self.outputs, self.digests, self.offset = outputs, dict(digests), offset

    def __call__(self, inputs):
        return self.outputs[0]

    def variable_digests(self):
        return self.digests

    def run_at_once(self, cases, threads, seconds):
        highest = [
            {n: y + self.offset * (k == 1) for n, y in outputs.items()}
            for k, outputs in enumerate(self.outputs)
        ]
        return 20, self.outputs, highest


@pytest.mark.parametrize(("offset", "status"), [(0.0, "pass"), (1e-3, "fail"), (np.nan, "fail")])
def test_one_wrong_output_among_threads_fails(samples, offset, status):
    cases = [samples.case([1]), samples.case([0, 4], 2)]
    expected = [{"y": case.inputs["x"] ** 2} for case in cases]
    subject = subject_of(FakeRunner(expected, offset=offset), cases, outputs=expected)
    found = Concurrency().test(subject, Tolerance(0.0, {"y": 1e-6}))
    assert found.status == status
    assert "from 8 threads" in found.detail


def test_a_runner_without_concurrent_calls_is_not_called_from_threads(samples):
    found = Concurrency().test(subject_of(FunctionRunner(len), [samples.case([0])]), EXACT)
    assert found.status == "not applicable"
    assert "the check runs one call at a time" in found.detail


@pytest.mark.parametrize(
    ("after", "variable", "status", "detail"),
    [
        (1.0, "", "fail", "sample 4"),
        (0.0, "", "pass", "the first call, repeated at the end"),
        (0.0, "0: bn/moving_mean:0", "fail", "inference changed bn/moving_mean:0"),
        (0.0, "3: lstm/seed_generator/seed_generator_state:0", "pass", "none of 2 variables"),
    ],
)
def test_inference_may_change_a_seed_but_no_weight(samples, after, variable, status, detail):
    """A runtime may hide its variables; then the outputs of the first call are compared."""
    before, now = ({variable: k, "1: kernel:0": "2"} if variable else {} for k in "01")
    run = FakeRunner([{"y": np.full(1, after)}], now)
    first = {"y": np.zeros(1)}
    subject = subject_of(run, [samples.case([4])], variables=before, outputs=[first])
    found = Weights().test(subject, EXACT)
    assert (found.name, found.status) == ("weights", status)
    assert detail in found.detail


def judge_ops(path, used):
    run = types.SimpleNamespace(path=path, ops=lambda: used)
    return BuiltInOps().test(types.SimpleNamespace(run=run, unsafe_ops={}), EXACT)


@pytest.mark.parametrize(
    ("op", "status"), [("CONV_2D", "pass"), ("FlexTensorListReserve", "fail"), ("MyOp", "fail")]
)
def test_a_tflite_file_with_a_foreign_op_fails_and_names_the_op(tmp_path, op, status):
    path = tmp_path / "model.tflite"
    path.write_bytes(b"\x1c\x00\x00\x00TFL3")  # identifies the format
    found = judge_ops(path, {"WHILE": ["a"], op: ["b"]})
    assert (found.status, op in found.detail) == (status, status == "fail")


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
    result = Constants().judge(found)
    assert result.status == status
    if status == "fail":
        assert result.detail == (
            "constant 'kernel' of layer \"b\" (Dense) differs from a new export of the model by "
            "0.021, but rounding explains only 0.01"
        )


@pytest.mark.parametrize(("share", "status"), [(0.01, "pass"), (0.011, "differs")])
def test_an_input_range_that_clips_more_than_a_hundredth_of_the_data_gives_advice(
    share, status, monkeypatch
):
    ranges = {"x": (-1.0, 1.0), "state": (-9.0, 9.0)}
    monkeypatch.setattr(input_range, "_ranges", lambda subject: ranges)
    x = np.where(np.arange(1000) < 1000 * share, 1.5, 0.5)
    data = types.SimpleNamespace(arrays={"x": x, "state": -x})
    result = InputRange().test(subject_of(None, plan={"samples": data}), EXACT)
    assert result.status == status
    assert result.detail == (
        f"{share:.1%} of the values of input 'x' are outside the range of the file, -1 to 1"
    )
    assert (InputRange().advise(result, None) is None) == (status == "pass")
