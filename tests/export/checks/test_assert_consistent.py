import keras
import numpy as np
import pytest

from keras_norm.export import assert_consistent
from tests.export import models

DATA = np.random.default_rng(0).normal(size=(8, 5, 3)).astype("float32")


@pytest.fixture(scope="module")
def model():
    layers = keras.layers.GlobalAveragePooling1D(), keras.layers.BatchNormalization(name="bn")
    return models.stack(*layers, keras.layers.Dense(2, name="y"))


def test_assert_consistent_returns_the_report_of_correct_exports(model):
    sizes = {"batch_sizes": [3], "lengths": [5]}
    report = assert_consistent(model, DATA, labels=np.zeros(8, int), **sizes)
    assert report
    assert [r.name for r in report.artifacts] == [
        "saved_model",
        "saved_model (C API)",
        "model.tflite",
    ]


def test_the_assertion_error_of_a_failed_check_contains_the_report(model):
    with pytest.raises(AssertionError) as error:
        assert_consistent(model, DATA, formats=["saved_model"], lengths=[5], max_gap=0.0)
    text = str(error.value)
    assert text.startswith("FAIL: Keras model")
    assert "What to do" in text
    assert "bn: the moving statistics have their initial values" in text


@pytest.mark.parametrize("formats", [["openvino"], [], None, 3])
def test_unknown_formats_raise(model, formats):
    with pytest.raises(ValueError, match="formats takes saved_model, tflite"):
        assert_consistent(model, DATA, formats=formats)


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        ({"tflite": {"quantize": "int8"}}, "Give samples="),
        ({"tflite": None}, "formats takes a dict of options for tflite.* Received: None"),
        ({"saved_model": {"path": "x"}}, "options for saved_model. A path is not an option"),
        ({"saved_model": {"version": 0}}, "version must be an integer"),
    ],
)
def test_the_options_of_a_format_are_passed_to_its_exporter(model, formats, message):
    with pytest.raises(ValueError, match=message):
        assert_consistent(model, DATA, formats=formats)


def test_an_option_that_no_exporter_has_raises(model):
    with pytest.raises(TypeError, match="bits"):
        assert_consistent(model, DATA, formats={"tflite": {"bits": 8}})


def test_an_option_that_the_check_does_not_have_raises_before_the_exports(model, monkeypatch):
    module = "keras_norm.export.checks.assert_consistent"
    monkeypatch.setattr(f"{module}.FORMATS", {"tflite": None})
    with pytest.raises(TypeError, match="check does not have: tolerance"):
        assert_consistent(model, DATA, formats=["tflite"], tolerance=1.0)
