"""The pages about export run in order, from the first block of Python to the last, on one model."""

import inspect
import pathlib
import re

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm import export

pytest.importorskip("ai_edge_litert")
pytest.importorskip("openvino")

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "guides"
PAGES = ("export", "quantization", "runtimes")

# How many calls are run: these take seconds each, and have tests of their own.
RUNS = {"export_tflite": 1, "check": 0, "export_onnx": 0}


def build(timesteps=None, unroll=False):
    """Build the model of the pages: rows of a digit to its class."""
    rows = keras.Input((timesteps, 8), name="rows")
    lstm = keras_norm.NormLSTM(2, norm=None, unroll=unroll, name="lstm")
    return keras.Model(rows, keras.layers.Dense(10, name="digit")(lstm(rows)))


def limited(function, runs):
    """Call the function `runs` times; later calls only check the arguments."""
    signature, calls = inspect.signature(function), []

    def called(*args, **options):
        path = signature.bind(*args, **options).arguments.get("path")
        assert path is None or path not in calls
        calls.append(path)
        return function(*args, **options) if len(calls) <= runs else True

    return called


@pytest.mark.slow
def test_every_block_of_the_page_about_text_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    page = (DOCS / "text.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "text", "exec"), names)
    assert names["report"]
    assert (tmp_path / "device" / "words.txt").is_file()


@pytest.mark.slow
def test_every_block_runs(tmp_path, monkeypatch):
    model, rng = build(), np.random.default_rng(0)
    x = rng.normal(size=(8, 6, 8)).astype("float32")
    names = {"build": build, "model": model, "x_train": x, "x_test": x, "stream": x[0][:, None]}
    monkeypatch.chdir(tmp_path)
    for name, runs in RUNS.items():
        monkeypatch.setattr(export, name, limited(getattr(export, name), runs))
    for page in PAGES:
        for block in re.findall(
            r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL
        ):
            exec(compile(block, page, "exec"), names)
    assert set(names["states"]) == {"lstm_h", "lstm_c"}
