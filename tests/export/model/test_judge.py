"""Exporters apply the tolerance of `check`."""

import logging

import keras
import numpy as np
import pytest

from keras_norm.export import VerificationError
from keras_norm.export.compare.quantization_tolerance import PRECISIONS
from keras_norm.export.compare.samples import Case, read_samples
from keras_norm.export.formats.verification import make_golden_cases
from keras_norm.export.model.expected_outputs import (
    expected_for_check,
    expected_for_export,
    measure_expected,
)
from keras_norm.export.model.judge import Judge, judge_for_export
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.signature import input_specs
from tests.export import models


def chaotic():
    """A recurrence that magnifies any difference at every timestep."""
    layer = keras.layers.SimpleRNN(64, return_sequences=True, name="wild")
    model = models.stack(layer)
    kernel, recurrent, bias = layer.get_weights()
    layer.set_weights([kernel, 4.0 * recurrent, bias])
    return model


@pytest.mark.parametrize("length", [6, 300])
def test_exports_and_checks_have_one_tolerance(length):
    model = models.recurrent()
    x = np.random.default_rng(0).normal(size=(3, length, 3)).astype("float32")
    run = KerasRunner(model)
    few = expected_for_export(model, x, run)
    samples = read_samples(input_specs(model), x)
    many = expected_for_check(model, samples, None, [length], run).tolerance()
    own = few.case_tolerance(few.cases[1])
    assert (own.rtol, own.atol) == (many.rtol, pytest.approx(many.atol))


def allowed(judge, k=1, precision="float64"):
    (atol,) = judge.tolerance(judge.expected.cases[k], precision).atol.values()
    return atol


def verify_off_by(judge, share, precision="float64"):
    """Judge outputs with an error in every value, of this share of the largest output."""
    case, rng = judge.expected.cases[1], np.random.default_rng(1)
    outputs = {
        name: y + share * np.abs(y).max() * rng.choice([-1.0, 1.0], y.shape)
        for name, y in case.outputs.items()
    }
    judge.verify(lambda _: outputs, "TFLite", precision, cases=[case])


@pytest.fixture(scope="module")
def wild():
    x = np.random.default_rng(0).normal(size=(3, 90, 3)).astype("float32")
    return chaotic(), x


def test_a_difference_as_large_as_the_one_of_float64_is_accepted(wild, caplog):
    judge = judge_for_export(*wild)
    narrow, half = allowed(judge), allowed(judge, precision="float16")
    with caplog.at_level(logging.WARNING, "keras_norm.export"):
        verify_off_by(judge, 0.04)
        verify_off_by(judge, 0.04)
    (warning,) = caplog.messages
    assert "magnifies rounding errors: for batch 3, length 90, output 'wild'" in warning
    assert allowed(judge) > 0.04 > narrow
    golden, half_golden = (make_golden_cases(judge, quantize=q) for q in (None, "float16"))
    assert golden.cases[1].atol["wild"] > allowed(judge)
    assert half_golden.cases[1].atol["wild"] < golden.cases[1].atol["wild"]
    assert (allowed(judge, 0), allowed(judge, precision="float16")) == (narrow, half)


@pytest.mark.parametrize(
    ("share", "precision"), [(0.06, "float64"), (0.04, "float16")], ids=["a twentieth", "float16"]
)
def test_a_larger_difference_or_one_of_a_float16_file_is_not_accepted(
    wild, caplog, share, precision
):
    judge = judge_for_export(*wild)
    narrow = allowed(judge, precision=precision)
    with pytest.raises(VerificationError, match="output 'wild' differs"):
        verify_off_by(judge, share, precision)
    assert allowed(judge, precision=precision) == narrow
    assert not caplog.text


@pytest.mark.parametrize(("data", "named"), [(None, True), (np.ones((4, 3)), False)])
def test_an_error_on_random_inputs_of_a_float16_file_names_samples(data, named):
    judge = judge_for_export(models.dense(), data)
    with pytest.raises(VerificationError) as raised:
        judge.verify(lambda x: {"y": np.full((len(x["x"]), 2), 9.0)}, "TFLite", "float16")
    assert str(raised.value).endswith("Give samples={input name: array}") == named


def test_nan_of_the_model_is_expected_and_outputs_that_the_model_does_not_have_are_ignored():
    model, expected = models.dense(), np.array([1.0, np.nan])
    case = Case("batch 2", (0, 1), None, {"x": np.ones((2, 3))}, outputs={"y": expected})
    judge = Judge(model, measure_expected(model, [case]), KerasRunner(model))
    judge.verify(lambda _: {"y": expected, "more": np.zeros(2)}, "TFLite")
    for wrong in ({}, {"y": expected[:1]}, {"y": expected[::-1]}):
        with pytest.raises(VerificationError):
            judge.verify(lambda _, wrong=wrong: wrong, "TFLite")


@pytest.mark.parametrize("quantize", ["dynamic", "int8", "int16x8"])
def test_outputs_of_8_bit_files_must_be_finite(quantize):
    judge = judge_for_export(models.dense())
    assert judge.tolerance(judge.expected.cases[0], PRECISIONS[quantize]).limits == {}
