"""Every other example, on a few samples and with few units: it trains, exports and checks.

What `check` finds is tested elsewhere; the demo's test has it too.
"""

import contextlib
import gzip
import os
import re

import keras
import numpy as np
import pytest

import keras_norm
from examples import characters, sentences, timeseries, translation

SAMPLES = {characters: "4", sentences: "40", timeseries: "40", translation: "240"}


class Recorder:
    """Stands for `check`: takes what it is given, and passes."""

    def __call__(self, model, files, data, labels=None):
        self.files = [path.name for path in files]
        self.outputs = model(data)
        return self

    def print(self):
        print("checked")


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    if "KERAS_NORM_DATA" not in os.environ:
        pytest.skip("KERAS_NORM_DATA names no folder with the data of the examples")

    def run(example):
        recorder = Recorder()
        monkeypatch.setattr(example, "check", recorder)
        monkeypatch.setattr(example, "UNITS", 4)
        arguments = ["--out", str(tmp_path), "--epochs", "1", "--samples", SAMPLES[example]]
        assert example.main(arguments) == 0
        assert recorder.files == ["saved_model", "model.tflite"]
        return capsys.readouterr().out

    return run


@pytest.fixture
def unwritten(monkeypatch):
    """Models of these kinds are exported in other tests, and take seconds."""
    for example in (sentences, timeseries, translation):
        monkeypatch.setattr(example, "export_saved_model", lambda model, path, overwrite: path)
        monkeypatch.setattr(example, "export_tflite", lambda model, path, overwrite: path)


@pytest.mark.usefixtures("unwritten")
def test_sentences(run):
    assert "val_accuracy" in run(sentences)


@pytest.mark.usefixtures("unwritten")
def test_timeseries(run, monkeypatch):
    # Two bidirectional layers take seconds to trace.
    monkeypatch.setattr(keras.layers, "Bidirectional", lambda layer: layer)
    monkeypatch.setattr(timeseries, "HELD_OUT", (4,))
    assert "of people it never met are recognised" in run(timeseries)


def test_characters_writes_from_its_file(run, monkeypatch):
    monkeypatch.setattr(characters, "LENGTH", 10)
    written = run(characters).partition("checked\n")[2]
    assert len(written) == 301


@pytest.mark.usefixtures("unwritten")
def test_translation(run, monkeypatch):
    monkeypatch.setattr(keras_norm, "LayerNormLSTM", keras_norm.LayerNormSimpleRNN)
    monkeypatch.setattr(translation, "translate", lambda file, chinese, words: ["so"] * 200)
    assert run(translation).count("  so  (") == 10


def test_sentences_of_a_translation_stand_between_start_and_end():
    ids = translation.encode([["a", "b"], ["a"]], {"a": 7}, (2, 3))
    np.testing.assert_array_equal(ids, [[2, 7, 1, 3], [2, 7, 3, 0]])


def test_a_translation_ends_where_the_file_says_so(monkeypatch):
    likely = iter([4, 5, translation.END, *[4] * translation.LONGEST])

    @contextlib.contextmanager
    def runner(file):
        yield lambda inputs: {"next": np.eye(6)[[[next(likely)]]]}

    monkeypatch.setattr(translation, "open_runner", runner)
    written = translation.translate("file", np.zeros((1, 3)), {4: "hello", 5: "world"})
    assert written == ["hello world"]


@pytest.mark.parametrize("example", [characters, sentences, timeseries])
def test_data_that_cannot_be_loaded_are_one_line(example, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_NORM_DATA", str(tmp_path))

    def load(name, *, data_dir, **_):
        raise OSError(f"no route from {data_dir} to {name}")

    monkeypatch.setattr(example.tfds, "load", load)
    with pytest.raises(SystemExit, match=r"TFDS could not load (\w+): no route from .*/tfds to \1"):
        example.load()


CUT_OFF = gzip.compress("Hi.\t嗨。\tCC-BY\n".encode() * 99)[:-9]


@pytest.mark.parametrize(
    ("name", "written", "said"),
    [
        ("nowhere.txt", None, "No such file or directory: .*nowhere.txt"),
        ("cut.txt.gz", CUT_OFF, "ended before the end-of-stream marker"),
        ("damaged.txt.gz", CUT_OFF[:30] + b"?" + CUT_OFF[31:], "Error -3"),
        ("other.txt", b"Hi.", "not enough values to unpack"),
        ("few.txt", "Hi.\t嗨。\n".encode() * 200, "not enough values to unpack"),
    ],
    ids=["missing", "cut off", "damaged", "other", "few"],
)
def test_pairs_that_cannot_be_read_are_one_line(name, written, said, tmp_path, capsys):
    if written is not None:
        (tmp_path / name).write_bytes(written)
    with pytest.raises(SystemExit) as ended:
        translation.main(["--pairs", str(tmp_path / name)])
    assert ended.value.code == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert re.search(rf"{name} is no file of pairs .*{said}.*manythings.org/anki", line)
