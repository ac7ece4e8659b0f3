"""The format of docs/design/formats.md: a linear model as an .npz file, in a module of its own."""

import importlib
import json
import pathlib
import re
import sys

import keras
import numpy as np
import pytest

import keras_norm_cli
from keras_norm.export import assert_consistent, check, open_runner, verify
from keras_norm.export.formats import format_registry
from keras_norm_cli import file_formats
from keras_norm_cli.commands import EXPORT_OPTIONS
from keras_norm_verify import RUNTIMES
from tests.export import models

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "design" / "formats.md"
X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write the module of the page, which registers the format, beside a model and data."""
    folder = tmp_path_factory.mktemp("linear")
    module = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)[1]
    (folder / "linear_format.py").write_text(module)
    model = models.stack(keras.layers.Dense(2, name="y"), shape=(3,))
    model.save(folder / "model.keras")
    np.savez(folder / "x.npz", x=X)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        yield folder
    for table in (format_registry.FORMATS, RUNTIMES, sys.modules):
        table.pop("linear" if table is not sys.modules else "linear_format", None)


@pytest.fixture(scope="module")
def linear(folder):
    importlib.import_module("linear_format")
    return format_registry.FORMATS["linear"]


@pytest.fixture(scope="module")
def model(folder):
    return keras.saving.load_model(folder / "model.keras")


def test_the_command_line_exports_checks_and_verifies_a_new_format(folder, capsys):
    def run(*arguments):
        assert keras_norm_cli.main(["--import", "linear_format", *arguments]) == 0
        return capsys.readouterr().out

    assert "out/model.npz" in run("export", "model.keras", "--to", "out", "--format", "linear")
    files = ["model.keras", "out/model.npz", "--data", "x.npz"]
    assert run("check", *files, "--json", "r.json", "--html", "r.html").startswith("PASS")
    report = json.loads((folder / "r.json").read_text())
    assert [artifact["name"] for artifact in report["artifacts"]] == ["model.npz"]
    assert "PASS: out/model.npz computes the outputs of" in run("verify", "out/model.npz")


def test_a_new_format_is_opened_asserted_and_verified(linear, model, tmp_path):
    path = linear.export(model, tmp_path / "m.npz")
    with open_runner(path, model) as run:
        np.testing.assert_allclose(run({"x": X})["y"], model.predict(X, verbose=0), atol=1e-5)
    assert assert_consistent(model, X, formats=["linear"])
    assert verify(path) == []
    with np.load(path) as arrays:
        np.savez(path, kernel=1.1 * arrays["kernel"], bias=arrays["bias"])
    assert [failure.check for failure in check(model, path, X).failures] == ["values"]
    changed, *wrong = verify(path)
    assert "no longer computes the expected outputs" in changed
    assert wrong


def test_the_command_line_knows_the_built_in_formats_without_tensorflow():
    registered = file_formats.known_formats()
    built_in = [name for name in RUNTIMES if name != "linear"]
    assert built_in == list(file_formats.BUILT_IN)
    for name, known in file_formats.BUILT_IN.items():
        assert registered[name].file_name == known.file_name
        assert known.options == set(registered[name].options) & {*EXPORT_OPTIONS}


def test_a_second_format_of_one_name_is_refused(linear):
    with pytest.raises(ValueError, match="'linear' is registered already"):
        format_registry.register(linear)


def test_an_unknown_format_is_refused_with_the_list_of_formats(linear, model, tmp_path):
    with pytest.raises(ValueError, match="must be one of saved_model, tflite, onnx, linear; rec"):
        format_registry.format_named("npz")
    (tmp_path / "m.xyz").touch()
    known = "m.xyz is not a SavedModel folder, a TFLite file, an ONNX file or a linear model"
    for refused in (verify, lambda path: check(model, path, X)):
        with pytest.raises(ValueError, match=known):
            refused(tmp_path / "m.xyz")
