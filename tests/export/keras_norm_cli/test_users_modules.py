"""Layers and functions of a user's module in `keras-norm`."""

import pathlib
import re
import sys

import keras
import pytest

from tests.export.keras_norm_cli.arguments import refused, replace_in_config


@keras.saving.register_keras_serializable(package="tests")
class Shift(keras.layers.Layer):
    def call(self, x):
        return x + 1.0


def test_an_unregistered_layer_is_named(run, tmp_path):
    keras.Sequential([keras.Input((3,)), Shift()]).save(tmp_path / "m.keras")
    replace_in_config(tmp_path / "m.keras", b"Shift", b"Unknown", tmp_path / "unknown.keras")
    message = refused(run("inspect", tmp_path / "unknown.keras"))
    assert "Unknown is not registered" in message


class TheirRegularizer(keras.regularizers.Regularizer):
    def __call__(self, w):
        return 0.0

    def get_config(self):
        return {}


def their_activation(x):
    return x


@pytest.mark.parametrize(
    ("argument", "theirs"),
    [
        ("kernel_regularizer", TheirRegularizer),
        ("activation", their_activation),
    ],
)
def test_an_unregistered_object_is_named_with_the_import_option(
    run, tmp_path, monkeypatch, argument, theirs
):
    given = theirs if argument == "activation" else theirs()
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, **{argument: given})]).save(
        tmp_path / "m.keras"
    )
    message = refused(run("inspect", tmp_path / "m.keras"))
    assert f"{theirs.__name__} is not registered" in message
    assert "keras-norm --import MODULE COMMAND" in message
    # Follow the advice of the message: register the function under the name that it gives.
    (name,) = re.findall(r"must set keras\.saving\.get_custom_objects\(\)\['(\w+)'\]", message)
    monkeypatch.setitem(keras.saving.get_custom_objects(), name, theirs)
    assert run("inspect", tmp_path / "m.keras")[0] == 0


@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
@pytest.mark.parametrize(
    "layer",
    [keras.layers.Lambda(lambda x: x), keras.layers.Dense(2, activation=lambda x: x)],
    ids=["layer", "activation"],
)
def test_a_lambda_is_refused_with_two_alternatives(run, tmp_path, layer):
    keras.Sequential([keras.Input((3,)), layer]).save(tmp_path / "lambda.keras")
    message = refused(run("inspect", tmp_path / "lambda.keras"))
    assert "safe mode" in message
    assert "keras-norm --import MODULE COMMAND" in message
    assert "keras_norm.export.export_saved_model(model, path)" in message
    assert "safe_mode=False" not in message


def test_import_registers_the_layers_of_a_users_module(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    pathlib.Path("their_layers.py").write_text(
        "import keras\n\n\n"
        "@keras.saving.register_keras_serializable(package='theirs')\n"
        "class Theirs(keras.layers.Layer):\n    def call(self, x):\n        return x\n"
    )
    sys.path.insert(0, str(tmp_path))
    import their_layers

    keras.Sequential([keras.Input((3,)), their_layers.Theirs()]).save("m.keras")
    keras.saving.get_custom_objects().pop("theirs>Theirs")
    del sys.modules["their_layers"]
    assert "keras-norm --import MODULE" in refused(run("inspect", "m.keras"))
    status, _, err = run("--import", "their_layers", "inspect", "m.keras")
    assert (status, err) == (0, "")
    pathlib.Path("broken.py").write_text("x = 1\ny = 1 / 0\n")
    pathlib.Path("ending.py").write_text("import sys\nsys.exit(0)\n")
    for module, expected in (
        (".their_layers", "--import must be the name of a module, such as my.layers; received .th"),
        ("my-layers", "--import must be the name of a module, such as my.layers; received my-lay"),
        ("broken", r"--import broken: ZeroDivisionError: division by zero \(.*broken\.py, 2\)"),
        ("ending", "--import ending: SystemExit: 0"),
    ):
        assert re.search(expected, refused(run("--import", module, "inspect", "m.keras")))
