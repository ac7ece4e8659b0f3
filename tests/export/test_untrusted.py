"""Malicious files: no code of a file runs, and no other file is read or written.

Each goes through the command line, in one process. They write or read a file, had they run.
"""

import json
import pathlib
import sys
import zipfile

import h5py
import keras
import numpy as np
import pytest

from keras_norm_cli import main
from tests.export import models


class Exploit:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return pathlib.Path.touch, (self.file,)


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    """Return the entries of a valid .keras file by name."""
    path = tmp_path_factory.mktemp("good") / "model.keras"
    models.stack(keras.layers.Dense(2, name="y"), shape=(3,)).save(path)
    with zipfile.ZipFile(path) as saved:
        return {name: saved.read(name) for name in saved.namelist()}


@pytest.fixture
def refused(tmp_path, capfd):
    """Return a function that loads a .keras file of entries, and requires a refusal in one line."""

    def load(entries):
        with zipfile.ZipFile(tmp_path / "model.keras", "w") as file:
            for name, content in entries.items():
                file.writestr(name, content)
        assert main(["inspect", str(tmp_path / "model.keras")]) == 2
        out, err = capfd.readouterr()
        assert out == ""
        assert err.startswith("keras-norm: ")
        assert err.count("\n") == 1
        return err

    return load


def with_layer(entries, layer):
    """Replace the only layer of the model by a configuration."""
    config = json.loads(entries["config.json"])
    config["config"]["layers"][1:] = [layer]
    return {**entries, "config.json": json.dumps(config)}


def named(module, class_name, /, **config):
    return {"module": module, "class_name": class_name, "config": config, "registered_name": None}


def function(module, name):
    return {"module": module, "class_name": "function", "config": name, "registered_name": name}


CALLS = {
    "os.system": lambda file, _: named("os", "system", command=f"touch {file}"),
    "posix.system": lambda file, _: named("posix", "system", command=f"touch {file}"),
    "subprocess.Popen": lambda file, _: named("subprocess", "Popen", args=["touch", str(file)]),
    "builtins.open": lambda file, _: named("builtins", "open", file=str(file), mode="w"),
    "tensorflow.io.write_file": lambda file, _: named(
        "tensorflow.io", "write_file", filename=str(file), contents="x"
    ),
    "keras.utils.get_file": lambda file, secret: named(
        "keras.utils", "get_file", fname=str(file), origin=f"file://{secret}"
    ),
    "keras.config": lambda *_: named("keras.config", "enable_unsafe_deserialization"),
    "an installed function of ours": lambda file, _: named(
        "keras_norm.export.formats.staging", "replace_text", path=str(file), text="x"
    ),
    "Lambda": lambda file, _: named(
        "keras.layers", "Lambda", name="y", function=function("os", "system")
    ),
    "TFSMLayer": lambda _, secret: named("keras.layers", "TFSMLayer", filepath=str(secret.parent)),
    "a module that is not imported": lambda *_: named("planted_module", "Planted", name="y"),
    "a registered name": lambda *_: {
        **named("planted_module", "Planted", name="y"),
        "registered_name": "planted>Planted",
    },
}


@pytest.mark.parametrize("call", CALLS)
def test_only_classes_and_functions_of_layers_are_called(
    refused, entries, tmp_path, monkeypatch, call
):
    (tmp_path / "planted_module.py").write_text("import keras\nclass Planted(keras.Layer): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    file, secret = tmp_path / "made", tmp_path / "secret"
    secret.touch()
    refused(with_layer(entries, CALLS[call](file, secret)))
    assert not file.exists()
    assert "planted_module" not in sys.modules


@pytest.mark.parametrize("module", ["os", "builtins", "planted_module", "keras.utils"])
@pytest.mark.parametrize("argument", ["activation", "kernel_initializer"])
def test_functions_of_other_modules_are_refused_as_arguments(
    refused, entries, tmp_path, argument, module
):
    name = {"os": "system", "builtins": "eval"}.get(module, "get_file")
    layer = json.loads(entries["config.json"])["config"]["layers"][1]
    layer["config"][argument] = function(module, name)
    assert len(refused(with_layer(entries, layer)).replace(str(tmp_path), "")) < 500


LOOKUPS = {
    "StringLookup": keras.layers.StringLookup,
    "IntegerLookup": keras.layers.IntegerLookup,
    "TextVectorization": keras.layers.TextVectorization,
}


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_vocabulary_file_outside_the_archive_is_not_read(
    refused, entries, tmp_path, lookup, scheme
):
    (tmp_path / "secret").write_text("1\n2\n")
    layer = keras.saving.serialize_keras_object(LOOKUPS[lookup]())
    layer["config"]["vocabulary"] = f"{scheme}{tmp_path}/secret"
    assert "vocabulary" in refused(with_layer(entries, layer))


def test_an_entry_is_not_written_outside_the_folder(entries, tmp_path, capfd):
    inside = tmp_path / "inside"
    inside.mkdir()
    with zipfile.ZipFile(inside / "model.keras", "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
        for name in ("../made", "assets/../../made", f"{tmp_path}/made"):
            file.writestr(name, "x")
    main(["inspect", str(inside / "model.keras")])
    assert [path.name for path in tmp_path.rglob("*")] == ["inside", "model.keras"]


def weights_in_another_file(file, other):
    file["layers/y/vars/0"] = h5py.ExternalLink(str(other), "/x")


def weights_in_raw_bytes(file, other):
    file["layers/y/vars"].create_dataset("0", (3, 2), "float32", external=[(str(other), 0, 24)])


def weights_of_36_terabytes(file, other):
    file["layers/y/vars"].create_dataset("0", (10**7, 10**6), "float32", chunks=(100, 100))


@pytest.mark.parametrize(
    "plant", [weights_in_another_file, weights_in_raw_bytes, weights_of_36_terabytes]
)
def test_weights_outside_the_file_are_not_read(refused, entries, tmp_path, plant):
    with h5py.File(tmp_path / "other", "w") as other:
        other["x"] = np.ones((3, 2), "float32")
    path = tmp_path / "weights.h5"
    path.write_bytes(entries["model.weights.h5"])
    with h5py.File(path, "a") as file:
        names = list(file["layers"])
        file.move(f"layers/{names[0]}", "layers/y")
        del file["layers/y/vars/0"]
        plant(file, tmp_path / "other")
        file.move("layers/y", f"layers/{names[0]}")
    assert "Not allowed" in refused({**entries, "model.weights.h5": path.read_bytes()})


@pytest.mark.parametrize("damage", ["no config", "no weights", "half a config", "a list", "text"])
def test_a_damaged_archive_is_refused_in_one_line(refused, entries, damage):
    broken = {
        "no config": {k: v for k, v in entries.items() if k != "config.json"},
        "no weights": {k: v for k, v in entries.items() if k != "model.weights.h5"},
        "half a config": {**entries, "config.json": entries["config.json"][:50]},
        "a list": {**entries, "config.json": "[]"},
        "text": {**entries, "config.json": '"text"'},
    }
    expected = "is not a Keras model" if damage == "no config" else "cannot be loaded"
    assert expected in refused(broken[damage])


def test_pickled_data_are_refused(entries, tmp_path, capfd):
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    np.savez(tmp_path / "data.npz", x=np.array([Exploit(tmp_path / "made")], dtype=object))
    arguments = ["--data", str(tmp_path / "data.npz"), "--to", str(tmp_path / "new.keras")]
    assert main(["recalibrate", str(tmp_path / "model.keras"), *arguments]) == 2
    assert "cannot be read" in capfd.readouterr().err
    assert not (tmp_path / "made").exists()
