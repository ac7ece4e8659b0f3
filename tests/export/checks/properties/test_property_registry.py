"""The property of docs/design/properties.md: one file, and one line that registers it.

The check tests it, and every report shows it.
"""

import importlib.util
import json
import pathlib
import re

import keras
import numpy as np
import pytest

import keras_norm_cli
from keras_norm import export
from keras_norm.export import check, export_saved_model
from keras_norm.export.checks.properties import property_registry
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.report.report import Report

X = np.random.default_rng(0).normal(size=(9, 3)).astype("float32")


ADVICE = "End the model with a ReLU."
PAGE = pathlib.Path(__file__).parents[4] / "docs" / "design" / "properties.md"


@pytest.fixture(scope="module")
def property_of_the_page(tmp_path_factory):
    """Write the class of the page to a file, and import it."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (code,) = (block for block in blocks if "class NonNegative" in block)
    file = tmp_path_factory.mktemp("properties") / "non_negative.py"
    file.write_text(code)
    spec = importlib.util.spec_from_file_location("non_negative", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.NonNegative


@pytest.fixture
def non_negative(property_of_the_page):
    added = property_of_the_page()
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
@pytest.mark.parametrize(
    ("name", "status", "detail"),
    [
        ("y", "pass", "output 'y' is 0 or larger"),
        ("z", "not applicable", "there is no output 'y'"),
    ],
)
def test_a_property_is_in_the_result_of_every_subject(name, status, detail):
    model = model_of("relu", name)
    report = check(model, [KerasRunner(model)], X)
    assert report
    results = [r.property("non-negative") for r in (report.keras, *report.artifacts)]
    assert [(r.status, r.detail) for r in results] == [(status, detail)] * 2


def test_an_error_while_a_property_is_tested_is_the_error_of_the_artifact(
    non_negative, monkeypatch
):
    def fail(subject, tolerance):
        if not subject.is_keras_model:
            raise RuntimeError("the device went away")
        return non_negative.passed("")

    monkeypatch.setattr(non_negative, "test", fail)
    model = model_of("relu")
    report = check(model, [KerasRunner(model)], X)
    assert [(f.check, f.detail) for f in report.failures] == [("run", "the device went away")]


def test_a_name_is_registered_once(non_negative):
    with pytest.raises(ValueError, match="'non-negative' is registered already"):
        property_registry.register(non_negative)


def test_only_the_registry_names_the_properties():
    """A property may name another property of the same folder."""
    names = re.compile(r"checks\.properties\.(?!property\b|property_registry\b)\w+")
    package = pathlib.Path(export.__file__).parent
    found = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if names.search(path.read_text()) and path.parent.name != "properties"
    ]
    assert found == []
