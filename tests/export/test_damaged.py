"""Truncated, damaged and foreign artifacts give one line, or a finding of the check."""

import pathlib
import shutil

import keras
import numpy as np
import pytest

from keras_norm.export import RunnerError, check
from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner, SavedModelRunner
from keras_norm_cli import main

DATA = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


@pytest.fixture
def damaged(dense_files, tmp_path):
    """Copy the exports, so that a test can damage them."""
    return pathlib.Path(shutil.copytree(dense_files, tmp_path / "copy"))


def cut(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


def flip(path, position, bit=6):
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def as_folder(path):
    path.unlink()
    path.mkdir()


# What is wrong before anything runs, and what the one line says of it.
REFUSED = {
    "a file cut in half": ("model.tflite", lambda file: cut(file, 0.5), "is damaged"),
    "a file cut to its header": ("model.tflite", lambda file: cut(file, 0.01), "is damaged"),
    "a flipped offset": ("model.tflite", lambda file: flip(file, 2), "is damaged"),
    "an empty file": ("model.tflite", lambda file: file.write_bytes(b""), "is damaged"),
    "text": ("model.tflite", lambda file: file.write_text("TFL3, said he"), "is damaged"),
    "a folder": ("model.tflite", as_folder, "is not a SavedModel"),
    "a graph cut in half": ("saved_model/saved_model.pb", lambda file: cut(file, 0.5), "damaged"),
    "an empty graph": ("saved_model/saved_model.pb", lambda f: f.write_bytes(b""), "no graph"),
    "another graph": ("saved_model/saved_model.pb", lambda f: f.write_text("<html>"), "damaged"),
}


@pytest.mark.parametrize("damage", REFUSED)
def test_a_file_that_is_not_a_model_is_refused_in_one_line(damaged, capfd, damage):
    name, apply, message = REFUSED[damage]
    apply(damaged / name)
    artifact = damaged / name.partition("/")[0]
    status = main(
        ["check", f"{damaged}/model.keras", str(artifact), "--data", f"{damaged}/data.npz"]
    )
    out, err = capfd.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert artifact.name in err
    assert message in err


VARIABLES = "saved_model/variables/variables"
UNREADABLE = {
    "no variables": lambda folder: shutil.rmtree(folder / "saved_model/variables"),
    "no data": lambda folder: (folder / f"{VARIABLES}.data-00000-of-00001").unlink(),
    "half the data": lambda folder: cut(folder / f"{VARIABLES}.data-00000-of-00001", 0.5),
    "a flipped weight": lambda folder: flip(folder / f"{VARIABLES}.data-00000-of-00001", 3),
    "an index cut in half": lambda folder: cut(folder / f"{VARIABLES}.index", 0.5),
    "another index": lambda folder: (folder / f"{VARIABLES}.index").write_text("index"),
}


@pytest.mark.parametrize(
    ("runner", "damage"),
    [
        *((CApiRunner, damage) for damage in UNREADABLE),
        (SavedModelRunner, "no variables"),
        (SavedModelRunner, "a flipped weight"),
    ],
)
def test_unreadable_variables_raise_runner_error_in_one_line(damaged, runner, damage):
    def load_and_run():
        # The C API loads a model without variables, and fails when it is run.
        with runner(damaged / "saved_model") as run:
            run({"x": DATA})

    UNREADABLE[damage](damaged)
    with pytest.raises(RunnerError, match=r"^SavedModel[^\n]* [^\n]*saved_model: [^\n]+$"):
        load_and_run()


def test_a_flipped_weight_of_a_tflite_file_is_found(damaged):
    model = keras.saving.load_model(damaged / "model.keras")
    file = damaged / "model.tflite"
    kernel = keras.ops.convert_to_numpy(model.layers[-1].kernel).T.tobytes()
    flip(file, file.read_bytes().index(kernel) + 2, bit=5)  # in the first fraction bits
    report = check(model, [file], DATA)
    assert {failure.check for failure in report.failures} == {"values"}
