"""Messages about a file whose outputs differ from the model."""

import numpy as np
import pytest

from keras_norm.export.compare.quantization_tolerance import PRECISIONS
from keras_norm.export.compare.samples import Case
from keras_norm.export.errors import VerificationError
from keras_norm.export.model.expected_outputs import measure_expected
from keras_norm.export.model.judge import Judge
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models

NAN = float("nan")


def judge(*outputs):
    """Make a judge of one layer with the given outputs."""
    inputs = {"x": np.ones((3, 3), "float32")}
    case = Case("batch 3", (0, 1, 2), None, inputs, outputs={"y": np.array(outputs)})
    model = models.dense()
    return Judge(model, measure_expected(model, [case]), KerasRunner(model))


@pytest.mark.parametrize(
    ("got", "quantize", "message"),
    [
        ([1.0, 2.1, NAN], None, r"differs by up to 0\.1.* the tolerance is 4e-05"),
        ([1.0, 2.1, NAN], "float16", r"differs by up to 0\.1.* the tolerance is 0\.04"),
        ([1.0, 2.0], None, "wrong shape"),
        (None, "int8", "missing output"),
        ([1.0, 2.0, 3.0], None, "NaN in 1 of 3 expected values"),
        ([1.0, np.inf, NAN], "int8", "infinite in only one of the two outputs"),
    ],
)
def test_a_difference_is_described(got, quantize, message):
    actual = {} if got is None else {"y": np.array(got)}
    with pytest.raises(VerificationError, match=message):
        judge(1.0, 2.0, NAN).verify(lambda _: actual, "TFLite", PRECISIONS[quantize])


@pytest.mark.parametrize(
    ("wanted", "got", "quantize"),
    [
        ((1.0, 2.0, NAN), (1.0, 2.0, NAN), None),
        ((1.0, 2.0, NAN), (9.0, 0.0, NAN), "int8"),
        ((1, 2, 3), (2, 1, 3), "float16"),
    ],
    ids=["NaN on both sides", "any number in 8 bits", "an argmax of rounded weights"],
)
def test_accepted_differences(wanted, got, quantize):
    judge(*wanted).verify(lambda _: {"y": np.array(got)}, "TFLite", PRECISIONS[quantize])


def test_outputs_that_the_model_does_not_have_are_ignored():
    actual = {"y": np.array([1.0]), "more": np.array([2.0])}
    judge(1.0).verify(lambda _: actual, "TFLite")
