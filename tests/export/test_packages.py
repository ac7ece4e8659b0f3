import importlib.util
import pathlib
import re
import tomllib

import pytest

from keras_norm.export import export_onnx, export_saved_model, export_tflite, packages
from keras_norm.export.formats.onnx.onnx_runner import ONNXRunner
from keras_norm.export.formats.tflite.tflite_runner import MicroRunner
from tests.export import models

PYPROJECT = pathlib.Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture
def table(monkeypatch):
    """Two extras: a module of "half" is missing, and all modules of "whole" are installed."""
    monkeypatch.setitem(packages.EXTRAS, "half", ("Halves need", ("json", "no_such_module")))
    monkeypatch.setitem(packages.EXTRAS, "whole", ("Wholes need", ("json", "ast")))


def test_extras_are_those_of_the_installation():
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    assert set(packages.EXTRAS) <= set(project["optional-dependencies"])


def test_an_extra_is_installed_if_all_its_modules_are(table):
    assert packages.is_installed("whole")
    assert not packages.is_installed("half")


def test_missing_modules_are_named_with_the_install_command(table):
    with pytest.raises(ImportError) as refusal:
        packages.require("half", "nor_this")
    message = 'Halves need no_such_module, nor_this: pip install ".[half]" in a clone of keras_norm'
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda path: export_tflite(models.dense(), path), r'pip install "\.\[tflite\]"'),
        (
            lambda path: export_onnx(models.dense(), path.with_name("m.onnx")),
            r'tf2onnx: pip install "\.\[onnx\]"',
        ),
        (
            lambda path: export_saved_model(models.dense(), path.with_name("m"), warmup=True),
            r'pip install "\.\[serving\]"',
        ),
        (lambda path: path.touch() or ONNXRunner(path), r'onnx, onnxruntime: .* "\.\[onnx\]"'),
        (lambda path: path.touch() or MicroRunner(path), r"\[micro\]"),
    ],
    ids=["TFLite", "ONNX", "warmup", "ONNX Runtime", "TFLite Micro"],
)
def test_a_missing_package_is_reported_with_the_extra(use, message, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError) as refusal:
        use(tmp_path / "m.tflite")
    monkeypatch.undo()
    # While the patch applies, `conftest.py` skips a test that needs ONNX and fails.
    assert re.search(message, str(refusal.value))
