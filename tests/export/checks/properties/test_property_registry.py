"""A property that a user registers is measured, judged and reported without another edit."""

import json

import keras
import numpy as np
import pytest

import keras_norm_cli
from keras_norm.export import assert_consistent, check, export_saved_model
from keras_norm.export.checks.properties import property_registry
from keras_norm.export.checks.properties.property import NotApplicable, Property
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.report.report import Report

X = np.random.default_rng(0).normal(size=(9, 3)).astype("float32")
ADVICE = "End the model with a ReLU."


class NonNegative(Property):
    name = "non-negative"
    meaning = "an output is negative"
    advice = ADVICE

    def measure(self, subject):
        outputs = subject.run(subject.plan.cases[0].inputs)
        if "y" not in outputs:
            return NotApplicable("there is no output 'y'")
        return float(outputs["y"].min())

    def judge(self, measured, tolerances):
        if measured < -tolerances.calls.atol["y"]:
            return self.failed(f"output 'y' is {measured:.3g}")
        return self.passed(f"output 'y' is {measured:.3g} or larger")


@pytest.fixture
def non_negative():
    added = NonNegative()
    property_registry.register(added)
    yield added
    property_registry.PROPERTIES.remove(added)


def model_of(activation, name="y"):
    keras.utils.set_random_seed(0)
    x = keras.Input((3,), name="x")
    dense = keras.layers.Dense(2, kernel_initializer=keras.initializers.Constant(-1.0))
    return keras.Model(x, keras.layers.Activation(activation, name=name)(dense(x)))


@pytest.mark.usefixtures("non_negative")
def test_a_failed_property_is_in_every_report_of_the_command_line(tmp_path, capsys):
    model = model_of("linear")
    model.save(tmp_path / "model.keras")
    export_saved_model(model, tmp_path / "served")
    np.savez(tmp_path / "x.npz", x=np.abs(X))
    files = [str(tmp_path / name) for name in ("model.keras", "served", "x.npz")]
    reports = ["--json", str(tmp_path / "report.json"), "--html", str(tmp_path / "report.html")]
    arguments = ["check", *files[:2], "--data", files[2], *reports]
    assert keras_norm_cli.main(arguments) == keras_norm_cli.FAILED
    text = " ".join(capsys.readouterr().out.split())
    assert "served, non-negative: output 'y' is -" in text
    assert ADVICE in text
    page = (tmp_path / "report.html").read_text()
    assert "an output is negative" in page
    assert ADVICE in page
    report = json.loads((tmp_path / "report.json").read_text())
    subjects = [f["subject"] for f in report["failures"] if f["check"] == "non-negative"]
    assert subjects == ["Keras model", "served", "served (C API)"]
    assert ADVICE in [finding["advice"] for finding in report["findings"]]
    again = Report.from_json((tmp_path / "report.json").read_text())
    assert "an output is negative" in again.page()


@pytest.mark.usefixtures("non_negative")
def test_a_passed_property_is_in_the_result_of_every_subject():
    model = model_of("relu")
    report = check(model, [KerasRunner(model)], X)
    assert report
    results = [r.property("non-negative") for r in (report.keras, *report.artifacts)]
    assert [(r.status, r.detail) for r in results] == [("pass", "output 'y' is 0 or larger")] * 2


@pytest.mark.usefixtures("non_negative")
def test_the_reason_why_a_property_does_not_apply_is_reported():
    model = model_of("linear", name="z")
    report = check(model, [KerasRunner(model)], X)
    assert report
    assert report.keras.property("non-negative").detail == "there is no output 'y'"


@pytest.mark.usefixtures("non_negative")
def test_a_failed_property_fails_assert_consistent():
    with pytest.raises(AssertionError, match="non-negative"):
        assert_consistent(model_of("linear"), np.abs(X), formats=["saved_model"])


def test_an_error_while_a_property_is_measured_is_the_error_of_the_artifact(
    non_negative, monkeypatch
):
    def fail(subject):
        if not subject.is_keras_model:
            raise RuntimeError("the device went away")

    monkeypatch.setattr(non_negative, "measure", fail)
    monkeypatch.setattr(non_negative, "judge", lambda *_: non_negative.passed(""))
    model = model_of("relu")
    report = check(model, [KerasRunner(model)], X)
    assert [(f.check, f.detail) for f in report.failures] == [("run", "the device went away")]


def test_a_name_is_registered_once(non_negative):
    with pytest.raises(ValueError, match="'non-negative' is registered already"):
        property_registry.register(non_negative)


def test_every_property_has_a_meaning_and_advice():
    for known in property_registry.PROPERTIES:
        assert known.name
        assert known.meaning
        assert known.advice.endswith(".")
