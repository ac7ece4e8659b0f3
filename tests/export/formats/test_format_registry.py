"""A format that a user registers: a linear model as an .npz file."""

import contextlib
import json

import keras
import numpy as np
import pytest

import keras_norm_cli
import keras_norm_verify
from keras_norm.export import assert_consistent, check, open_runner
from keras_norm.export.formats import format_registry
from keras_norm.export.formats.artifact_format import Format, Source
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.runtimes.runner import Runner
from keras_norm.export.signature import TensorSpec
from keras_norm_cli import file_formats
from keras_norm_cli.commands import EXPORT_OPTIONS

X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")


class LinearRunner(Runner):
    """y = x W + b."""

    name = "linear"

    def __init__(self, path, signature_name="serving_default", worker=None):
        self.path = path
        with np.load(path) as arrays:
            self.kernel, self.bias = arrays["kernel"], arrays["bias"]
        self.inputs = {"x": TensorSpec("x", (None, len(self.kernel)), "float32")}

    def _run(self, inputs):
        return {"y": inputs["x"] @ self.kernel + self.bias}

    def close(self):
        pass

    def ops(self):
        return {"MATMUL": ["y"]}


def export_linear(model, path, *, scale=1.0, overwrite=False):
    kernel, bias = model.get_layer("y").get_weights()
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, kernel=scale * kernel, bias=bias)
    return path


def sources(path, name):
    return (
        Source(
            name, str(path), "float32", lambda *_, **__: contextlib.nullcontext(LinearRunner(path))
        ),
    )


@pytest.fixture
def linear():
    added = Format(
        name="linear",
        title="a linear model",
        file_name="model.npz",
        recognizes=lambda path: path.suffix == ".npz",
        export=export_linear,
        open=LinearRunner,
        sources=sources,
    )
    format_registry.register(added)
    yield added
    del format_registry.FORMATS["linear"]


@pytest.fixture
def model():
    return keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2, name="y")])


def test_a_registered_format_is_exported_and_checked_by_the_command_line(
    linear, model, tmp_path, capsys
):
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "x.npz", x=X)
    arguments = ["export", str(tmp_path / "model.keras"), "--to", str(tmp_path / "out")]
    assert keras_norm_cli.main([*arguments, "--format", "linear"]) == 0
    assert "model.npz" in capsys.readouterr().out
    files = [str(tmp_path / "model.keras"), str(tmp_path / "out" / "model.npz")]
    reports = ["--json", str(tmp_path / "report.json"), "--html", str(tmp_path / "report.html")]
    arguments = ["check", *files, "--data", str(tmp_path / "x.npz"), *reports]
    assert keras_norm_cli.main(arguments) == 0
    assert capsys.readouterr().out.startswith("PASS")
    report = json.loads((tmp_path / "report.json").read_text())
    assert [artifact["name"] for artifact in report["artifacts"]] == ["model.npz"]


def test_a_wrong_file_of_a_registered_format_fails(linear, model, tmp_path):
    path = export_linear(model, tmp_path / "m.npz", scale=1.1)
    report = check(model, path, X)
    assert [failure.check for failure in report.failures] == ["values"]


def test_a_registered_format_is_opened_and_asserted(linear, model, tmp_path):
    path = export_linear(model, tmp_path / "m.npz")
    run = open_runner(path, model)
    np.testing.assert_allclose(run({"x": X})["y"], KerasRunner(model)({"x": X})["y"], atol=1e-5)
    assert assert_consistent(model, X, formats=["linear"])
    with pytest.raises(AssertionError, match="values"):
        assert_consistent(model, X, formats={"linear": {"scale": 1.1}})


def test_the_command_line_knows_the_built_in_formats_without_tensorflow():
    registered = file_formats.known_formats()
    assert list(registered) == list(file_formats.BUILT_IN) == list(keras_norm_verify.RUNTIMES)
    for name, built_in in file_formats.BUILT_IN.items():
        assert registered[name][:2] == built_in[:2]
        assert built_in.options == set(registered[name].options) & {*EXPORT_OPTIONS}


def test_a_second_format_of_one_name_is_refused(linear):
    with pytest.raises(ValueError, match="'linear' is registered already"):
        format_registry.register(linear)


def test_an_unknown_format_is_refused_with_the_list_of_formats(model, tmp_path):
    with pytest.raises(ValueError, match="the format must be one of saved_model, tflite, onnx"):
        format_registry.format_named("npz")
    (tmp_path / "m.npz").touch()
    with pytest.raises(
        ValueError, match="is not a SavedModel folder, a TFLite file or an ONNX file"
    ):
        check(model, tmp_path / "m.npz", X)
