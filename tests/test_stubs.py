"""The stubs match the classes, are shipped, and give type checkers every argument."""

import os
import pathlib
import subprocess
import sys
import tomllib

import pytest

from tests.stubs import PATH, stubs

pytest.importorskip("mypy", reason="the extra `tests` has no mypy and no ruff")

ROOT = pathlib.Path(__file__).parents[1]

# Lines of code, with the error code that mypy reports for them; None for no error.
USE = {
    "import keras": None,
    "import keras_norm": None,
    "from keras_norm.export import check": None,
    "layer = keras_norm.LayerNormLSTM(8, 'relu', epsilon=1e-3, return_sequences=True)": None,
    "bias: str = layer.use_bias": "[assignment]",
    "layer.cell.get_config()": None,
    "keras_norm.NormGRUCell(8, keras_norm.RMSNormalization(), dropout=0.1)": None,
    "keras_norm.NormGRU(8, drop=0.1)": "[call-arg]",
    "keras_norm.BatchNormSimpleRNN(8)": "[call-arg]",
    "keras_norm.BatchNormLSTM(8, '9')": "[arg-type]",
    "keras_norm.LayerNormLSTMCell(8, norm=None)": "[call-arg]",
    "keras_norm.LayerNormalization(gamma_initializer='zeros').gamma": None,
    "keras_norm.LayerNormalization(ddof='1')": "[arg-type]",
    "keras_norm.NormLSTM(8, kernel_initializer=keras.initializers.Zeros(), dtype='float64')": None,
    "keras_norm.NormLSTM(8, kernel_initializer=1)": "[arg-type]",
    "keras_norm.NormLSTM(8, name=1)": "[arg-type]",
    "keras_norm.NormLSTM(8, {'kernel_norm': keras_norm.RMSNormalization()}).norm": None,
    "keras_norm.BatchNormalization().moving_mean.assign(0.0)": None,
    "keras_norm.recalibrate(1, 2, steps='3')": "[arg-type]",
    "keras_norm.compat.load_addons_weights(layer)": "[call-arg]",
    "keras_norm.compat.load_torch_weights({'lstm': [layer]}, 'a.npz', 'lstm')": None,
    "keras_norm.compat.load_torch_weights(layer, {}, epsilon='1')": "[arg-type]",
    "keras_norm.export.export_tflite(layer)": "[call-arg]",
    "check(layer, [], 1, rtol='no')": "[arg-type]",
    "keras_norm.no_such_name": "[attr-defined]",
}


def test_the_committed_stubs_are_up_to_date():
    assert PATH.read_text() == stubs(), "run `make stubs`"


def test_the_package_contains_the_stubs():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert {"py.typed", PATH.name} <= set(data["package-data"]["keras_norm"])
    assert (PATH.parent / "py.typed").exists()


@pytest.mark.slow
def test_a_type_checker_knows_every_argument(tmp_path):
    package = tmp_path / "keras_norm"
    package.mkdir()
    for source in [*(ROOT / "keras_norm").iterdir(), ROOT / "export"]:
        (package / source.name).symlink_to(source)
    (tmp_path / "use.py").write_text("\n".join(USE))
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "setup.cfg"]
    done = subprocess.run(
        [*command, "--follow-imports", "silent", "--cache-dir", os.devnull, "use.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    expected = [(f"use.py:{k}:", code) for k, code in enumerate(USE.values(), 1) if code]
    for line, (place, code) in zip(errors, expected, strict=True):
        assert line.startswith(place)
        assert line.endswith(code)
