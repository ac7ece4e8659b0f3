"""Wrong use of `keras-norm` gives one line and status 2."""

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest

from tests.export.keras_norm_cli.arguments import CHECK as CHECK_ALL
from tests.export.keras_norm_cli.arguments import refused


@keras.saving.register_keras_serializable(package="tests")
class Broken(keras.layers.Layer):
    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape)

    def call(self, x):
        return x * (1 // 0)


CHECK = "check model.keras right --data data.npz"
EXPORT = "export model.keras --to q"
TFLITE = f"{EXPORT} --format tflite"
RECALIBRATE = "recalibrate digits.keras --data"
LONG = "x" * 300
# Wrong uses that are refused without Keras and TensorFlow, whose import takes seconds.
EARLY = {
    "chekc": "invalid choice",
    "check model.keras right": "required: --data",
    "inspect nowhere.keras": "nowhere.keras: no such file",
    "inspect right": "right is a folder. Give the .keras file",
    "inspect right/saved_model.pb": "is not a Keras model",
    "inspect data.npz": "data.npz is not a Keras model",
    "inspect data.npy": "data.npy is not a Keras model",
    "inspect ''": "an argument is empty",
    "inspect weights.h5": "weights.h5 is an HDF5 file, not a .keras file. Load it",
    f"inspect {os.devnull}": "null is not a file",
    f"inspect {LONG}": "x cannot be read: File name too long",
    "verify nowhere": "nowhere: no such file or folder",
    "verify model.keras": "model.keras is a Keras model, not an exported file. Export",
    "--import ./layers.py inspect model.keras": "name of a module, such as my.lay",
    "--import nowhere inspect model.keras": "--import nowhere: there is no such mod",
    "check model.keras nowhere --data data.npz": "nowhere: no such file",
    f"check model.keras {LONG} --data data.npz": "File name too long",
    "check model.keras data.npz --data data.npz": "data.npz is not a SavedModel folder, a TF",
    "check model.keras digits.keras --data data.npz": "digits.keras is a Keras model, not",
    "check model.keras right/assets --data data.npz": "is not a SavedModel: it has neither saved_",
    "check model.keras right --data x.npz": "x.npz: no such file",
    "check model.keras a* --data data.npz": "TensorFlow reads * in the",
    f"{CHECK} --labels nowhere.npz": "nowhere.npz: no such file",
    f"{CHECK} data.npy --labels labels.npz": "one file of labels for each of the 2",
    f"{CHECK} --rtol -1": "--rtol: must be a finite number, 0 or larger; received -1",
    f"{CHECK} --rtol 1": "--rtol: must be below 1",
    f"{CHECK} --atol much": "--atol: must be a finite number, 0 or larger; received much",
    f"{CHECK} --batch-sizes 2 0": "--batch-sizes: must be an integer, 1 or larger; received 0",
    f"{CHECK} --json nowhere/r.json": "there is no folder",
    f"{CHECK} --html .": "is a folder",
    f"{CHECK} --json {os.devnull}": "null is a device",
    f"{CHECK} --json loop": "loop is a broken link",
    f"{CHECK} --json model.keras": "would overwrite",
    f"{CHECK} --json right/saved_model.pb": "A report would overwrite",
    f"{CHECK} --json r --html r": "would overwrite the other report",
    "compare weights.h5 right --data data.npz": "is an HDF5 file, not a",
    "compare right nowhere --data data.npz": "nowhere: no such file",
    "compare nowhere.keras right --data data.npz": "no such file",
    "compare right four.npy --data data.npz": "four.npy is not a SavedModel",
    f"{RECALIBRATE} right --to new.keras": "right is a folder. Give the .npz or",
    f"{RECALIBRATE} data.npz --to new": "--to must be a .keras file",
    f"{RECALIBRATE} data.npz --to model.keras": "exists and is not overwritten",
    f"{RECALIBRATE} data.npz --to four.npy/n.keras": "four.npy is a file",
    "convert model.keras --to new.keras --max-timesteps 0": "must be an integer, 1 or larger",
    "convert model.keras --to new.keras --max-timesteps 5": "--max-timesteps needs --norm batch",
    "export model.keras --to model.tflite": "--to must be a folder; received",
    "export model.keras --to q*": "TensorFlow reads * in the path",
    "export model.keras --to ''": "an argument is empty",
    "export model.keras --to caf\udce9": "caf\\udce9 is not UTF-8",
    "export model.keras --to four.npy": "--to must be a folder; ",
    "export model.keras --to full": "full/saved_model exists; choose another --to",
    "export model.keras --to full --format tflite --version 1": "model-1.tflite exists; give a hi",
    "export model.keras --to link": "nowhere, which does not exist. Make",
    "inspect digits.keras --data missing.npz": "missing.npz: no such file",
    f"{EXPORT} --samples right/saved_model.pb": "is not an .npz or .npy file",
    f"{EXPORT} --format h5": "--format must be one of saved_model, tflite, onnx; received h5",
    f"{EXPORT} --quantize float16": "--quantize needs --format tflite",
    f"{EXPORT} --signature step": "--signature needs --format tflite",
    f"{EXPORT} --step --format onnx": "--step needs --format saved_model or tflite",
    f"{TFLITE} --quantize int8": "--quantize int8 needs samples for",
    f"{TFLITE} --quantize int8 --samples data.npz --step": "int8 cannot be combined with --step",
    f"{TFLITE} --signature step --no-step": "step cannot be combined with --no-step",
    f"{EXPORT} --version 0": "--version: must be an integer, 1 or larger; received 0",
    f"{EXPORT} --version {2**63}": "must be at most 9223372036854775807; received 92",
}
LATE = [
    ("check model.keras right --data model.keras", "inputs: 'x'. Received: 'metadata.json', "),
    ("check model.keras right --data one.npy", "needs at least 2 samples"),
    ("check model.keras right --data data.npy labels.npy", "shape (8,). The error is about the d"),
    (f"{CHECK} --labels four.npy", "Labels need one row for each of the 8 samples"),
    (f"{TFLITE} --signature step", "no recurrent layer, so it has no states"),
    (f"{CHECK} --labels data.npz", "must be names of outputs: 'y'"),
    (f"{CHECK} --lengths 99999999999", "lengths"),
]


def run_without_tensorflow(commands, folder):
    """Run commands in one process that cannot import Keras; return (status, stderr) of each."""
    script = (
        "import contextlib, io, json, os, sys\n"
        "sys.path[0] = os.getcwd()\n"
        "os.chdir(sys.argv[1])\n"
        "sys.modules['keras'] = sys.modules['tensorflow'] = None\n"
        "import keras_norm_cli\n"
        "def run(arguments):\n"
        "    with contextlib.redirect_stderr(io.StringIO()) as err:\n"
        "        return keras_norm_cli.main(arguments), err.getvalue()\n"
        "print(json.dumps([run(arguments) for arguments in json.loads(sys.stdin.read())]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, folder],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def refused_early(folder):
    """The line on stderr of each command of EARLY."""
    np.save(folder / "four.npy", np.arange(4))
    (folder / "weights.h5").touch()
    (folder / "a*").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "link").symlink_to("nowhere")
    (folder / "full" / "saved_model").mkdir(parents=True)
    (folder / "full" / "model-1.tflite").touch()
    before = sorted(folder.rglob("*"))
    results = run_without_tensorflow([shlex.split(command) for command in EARLY], folder)
    assert sorted(folder.rglob("*")) == before
    return dict(zip(EARLY, results, strict=True))


@pytest.mark.parametrize("command", EARLY)
def test_wrong_use_is_refused_in_one_line_before_tensorflow_is_imported(refused_early, command):
    status, err = refused_early[command]
    assert EARLY[command] in refused((status, "", err))


@pytest.mark.parametrize(("command", "message"), LATE)
def test_wrong_use_is_one_line_and_status_2(run, folder, monkeypatch, command, message):
    monkeypatch.chdir(folder)
    np.save("four.npy", np.arange(4))
    np.save("one.npy", np.zeros((1, 3, 3)))
    before = sorted(folder.iterdir())
    assert message in refused(run(*command.split()))
    assert sorted(folder.iterdir()) == before


def test_without_a_command_the_help_is_printed(run):
    status, out, err = run()
    assert (status, out) == (2, "")
    assert err.startswith("usage: keras-norm")
    assert "compare exported files with the model" in err


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": np.zeros((4, 3, 3))}, "names must be the model's inputs: 'x'. Received: 'z'"),
        ({"x": np.zeros((4, 3, 2))}, "Received shape (4, 3, 2)"),
        ({"x": np.array([[["a"] * 3] * 3] * 4)}, "takes float32. Received values of <U1"),
        ({"x": np.array(["a", "b"], dtype=object)}, "dtype str: texts.astype(str)"),
    ],
)
def test_wrong_data_are_refused_and_nothing_is_written(run, tmp_path, arrays, message):
    np.savez(tmp_path / "wrong.npz", **arrays)
    arguments = ("--data", tmp_path / "wrong.npz", "--json", tmp_path / "r.json")
    assert message in refused(run("check", "{}/model.keras", "{}/right", *arguments))
    assert not (tmp_path / "r.json").exists()


def test_an_error_of_a_layer_is_one_line_with_file_and_line(run, tmp_path):
    """The status is 2 for any exception, because 1 means a failed check."""
    inputs = keras.Input((3,), name="x")
    keras.Model(inputs, Broken()(inputs)).save(tmp_path / "m.keras")
    message = refused(run("export", tmp_path / "m.keras", "--to", tmp_path / "out"))
    assert re.search(r"ZeroDivisionError: .* by zero \(.*test_wrong_use.py, \d+\)", message)
    assert not (tmp_path / "out").exists()


def test_a_missing_report_package_names_the_extra(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert ".[report]" in refused(run(*CHECK_ALL, "--html", tmp_path / "r.html"))
    assert list(tmp_path.iterdir()) == []


def test_reports_name_a_file_of_data_whose_name_is_not_utf_8(run, folder, tmp_path):
    for k in range(2):
        data = tmp_path / os.fsdecode(b"caf\xe9%d.npz" % k)
        data.write_bytes((folder / "data.npz").read_bytes())
    files = sorted(tmp_path.iterdir())
    model = keras.saving.load_model(folder / "model.keras")
    model.set_weights([-w for w in model.get_weights()])  # all predictions change
    model.save(tmp_path / "new.keras")
    reports = ("--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    arguments = ("compare", "{}/model.keras", tmp_path / "new.keras", "--data", *files, *reports)
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    assert r"caf\udce9" in out
    assert r"caf\udce9" in (tmp_path / "r.html").read_text()


def test_data_that_are_damaged_or_larger_than_the_memory_are_refused(run, folder, tmp_path):
    content = bytearray((folder / "data.npz").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = b"damaged!"
    (tmp_path / "bad.npz").write_bytes(content)
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000, 1, 3), }"
    header += b" " * (117 - len(header)) + b"\n"
    npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as file:
        file.writestr("x.npy", npy)
    for name in ("bad.npz", "huge.npz"):
        arguments = ("check", "{}/model.keras", "{}/right", "--data", tmp_path / name)
        assert "cannot be read" in refused(run(*arguments))
