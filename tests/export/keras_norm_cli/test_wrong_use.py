"""Wrong use of `keras-norm` gives one line and status 2."""

import os
import re
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest

from tests.export.keras_norm_cli.arguments import CHECK, refused


@keras.saving.register_keras_serializable(package="tests")
class Broken(keras.layers.Layer):
    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape)

    def call(self, x):
        return x * (1 // 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "required: COMMAND"),
        (("chekc",), "invalid choice"),
        (("check", "{}/model.keras", "{}/right"), "required: --data"),
        (("inspect", "{}/nowhere.keras"), "nowhere.keras: no such file"),
        (("inspect", "{}/right"), "right is a folder"),
        (("inspect", "{}/right/saved_model.pb"), "is not a Keras model"),
        (("inspect", "{}/data.npz"), "data.npz cannot be loaded"),
        (
            ("export", "{}/model.keras", "--to", "{}/q", "--quantize", "float16"),
            "needs --format tflite",
        ),
        (
            ("export", "{}/model.keras", "--to", "{}/q", "--signature", "step"),
            "needs --format tflite",
        ),
        (
            (
                "export",
                "{}/model.keras",
                "--to",
                "{}/q",
                "--format",
                "tflite",
                "--signature",
                "step",
            ),
            "no recurrent layer, so it has no states",
        ),
        (
            (
                "export",
                "{}/model.keras",
                "--to",
                "{}/q",
                "--format",
                "tflite",
                "--quantize",
                "int8",
            ),
            "--quantize int8 needs samples for the scales of the activations. Give --samples FILE",
        ),
        (("export", "{}/model.keras", "--to", "{}/q", "--version", "0"), "version"),
        (
            ("export", "{}/model.keras", "--to", "{}/q", "--version", str(2**63)),
            "version must be at most 9223372036854775807",
        ),
        (("export", "{}/model.keras", "--to", ""), "an argument is empty"),
        (("inspect", ""), "an argument is empty"),
        (
            ("check", "{}/model.keras", "{}/nowhere", "--data", "{}/data.npz"),
            "nowhere: no such file",
        ),
        (
            ("check", "{}/model.keras", "{}/data.npz", "--data", "{}/data.npz"),
            "data.npz is not a SavedModel folder",
        ),
        (("check", "{}/model.keras", "{}/right", "--data", "{}/x.npz"), "x.npz: no such file"),
        (("check", "{}/model.keras", "{}/right", "--data", "{}/model.keras"), "must be the model"),
        ((*CHECK, "--labels", "{}/data.npz"), "must be names of outputs: 'y'"),
        ((*CHECK, "--rtol", "-1"), "rtol must be a finite number"),
        ((*CHECK, "--rtol", "much"), "invalid float"),
        ((*CHECK, "--json", "{}/nowhere/r.json"), "nowhere does not exist"),
        ((*CHECK, "--html", "{}"), "is a folder"),
        ((*CHECK, "--json", os.devnull), "null is a device"),
        ((*CHECK, "--lengths", "99999999999"), "lengths"),
        (("inspect", os.devnull), "null is not a file"),
        (("inspect", "x" * 300), "x cannot be read: File name too long"),
        (("check", "{}/model.keras", "x" * 300, "--data", "{}/data.npz"), "File name too long"),
        (("export", "{}/model.keras", "--to", "{}/caf\udce9"), "caf\\udce9 is not UTF-8"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(run, folder, arguments, message):
    before = sorted(folder.iterdir())
    assert message in refused(run(*arguments))
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": np.zeros((4, 3, 3))}, "must be the model's inputs: 'x'"),
        ({"x": np.zeros((4, 3, 2))}, "Received shape (4, 3, 2)"),
        ({"x": np.array([[["a"] * 3] * 3] * 4)}, "takes float32"),
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


def test_inspect_refuses_a_model_that_is_not_built(run, tmp_path):
    with pytest.warns(UserWarning, match="not yet been built"):
        keras.Sequential([keras.layers.Dense(2)]).save(tmp_path / "m.keras")
    assert "Build the model: let it begin with keras.Input" in refused(
        run("inspect", tmp_path / "m.keras")
    )


def test_missing_files_and_unknown_formats_are_reported_before_the_package_is_imported(folder):
    """The import of TensorFlow takes seconds."""
    commands = [
        ("inspect", "{}/nowhere.keras"),
        ("inspect", "{}/data.npy"),
        ("check", "{}/model.keras", "{}/nowhere", "--data", "{}/data.npz"),
        ("check", "{}/model.keras", "{}/right", "--data", "{}/nowhere.npz"),
        (*CHECK, "--labels", "{}/nowhere.npz"),
        ("compare", "{}/right", "{}/nowhere", "--data", "{}/data.npz"),
        ("compare", "{}/nowhere.keras", "{}/right", "--data", "{}/data.npz"),
        ("recalibrate", "{}/model.keras", "--data", "{}/right", "--to", "{}/new.keras"),
        ("export", "{}/model.keras", "--to", "{}/q", "--samples", "{}/right/saved_model.pb"),
        ("export", "{}/model.keras", "--to", "{}/q", "--format", "h5"),
    ]
    arguments = [[argument.format(folder) for argument in command] for command in commands]
    script = (
        "import sys\n"
        "sys.modules['keras'] = sys.modules['tensorflow'] = None\n"
        "import keras_norm_cli\n"
        f"print([keras_norm_cli.main(arguments) for arguments in {arguments}])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == [str([2] * len(commands))], done.stderr


def test_a_missing_report_package_names_the_extra(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    message = refused(run(*CHECK, "--html", tmp_path / "r.html"))
    assert ".[report]" in message
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


def test_a_damaged_archive_of_data_is_one_line(run, folder, tmp_path):
    content = bytearray((folder / "data.npz").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = b"damaged!"
    (tmp_path / "bad.npz").write_bytes(content)
    err = refused(run("check", "{}/model.keras", "{}/right", "--data", tmp_path / "bad.npz"))
    assert "cannot be read" in err


def test_a_truncated_tflite_file_is_one_line(run, tmp_path):
    (tmp_path / "cut.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + b"\x00" * 20)
    arguments = ("check", "{}/model.keras", tmp_path / "cut.tflite", "--data", "{}/data.npz")
    assert "cut.tflite" in refused(run(*arguments))


def test_data_larger_than_the_memory_are_refused(run, tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4000000000000), }"
    header += b" " * (117 - len(header)) + b"\n"
    npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as file:
        file.writestr("x.npy", npy)
    message = refused(run("check", "{}/model.keras", "{}/right", "--data", tmp_path / "huge.npz"))
    assert "cannot be read" in message
