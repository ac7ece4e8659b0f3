"""Files, configurations and weights of earlier versions load, and give their old outputs."""

import json
import pathlib
import zipfile

import keras
import numpy as np
import pytest

import keras_norm  # noqa: F401  registers the classes
from tests.keras_version import needs_keras

FOLDER = pathlib.Path(__file__).parent / "data"
NAMES = sorted(path.stem for path in FOLDER.glob("*.keras"))
# tests/data/README.md names the version of Keras that wrote the files.
reads_its_files = needs_keras(3, 15, "Keras reads no files of a later version")
TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}


def arrays(name):
    with np.load(FOLDER / f"{name}.npz") as file:
        return dict(file)


def assert_outputs_equal_the_stored_ones(model, name):
    outputs, expected = model(arrays(f"{name}_inputs"), training=False), arrays(f"{name}_outputs")
    assert set(outputs) == set(expected)
    for key, y in outputs.items():
        tolerance = TOLERANCE[keras.backend.standardize_dtype(y.dtype)]
        y = np.asarray(y, "float64")
        np.testing.assert_allclose(y, expected[key], rtol=tolerance, atol=tolerance, err_msg=key)


def assert_contains(new, old, path=""):
    """Assert that a new configuration contains every value of an old configuration."""
    if isinstance(old, dict):
        # Only files have shared_object_id. Keras finds a registered class without its module.
        keys = set(old) - {"shared_object_id", "module"}
        assert keys <= set(new), path
        pairs = [(key, new[key], old[key]) for key in keys]
    elif isinstance(old, list):
        assert len(new) == len(old), path
        pairs = [(i, *pair) for i, pair in enumerate(zip(new, old, strict=True))]
    else:
        assert new == old, path
        return
    for key, *pair in pairs:
        assert_contains(*pair, f"{path}/{key}")


def test_all_seven_files_are_tested():
    assert len(NAMES) == 7


@reads_its_files
@pytest.mark.parametrize("name", NAMES)
def test_a_file_gives_its_old_outputs_and_configuration(name):
    path = FOLDER / f"{name}.keras"
    model = keras.models.load_model(path)
    assert_outputs_equal_the_stored_ones(model, name)
    with zipfile.ZipFile(path) as file:
        old = json.loads(file.read("config.json"))["config"]
    assert_contains(json.loads(json.dumps(model.get_config())), old)


@reads_its_files
@pytest.mark.parametrize("name", ["gru", "norms"])
def test_a_configuration_with_weights_gives_its_old_outputs(name):
    model = keras.Model.from_config(json.loads((FOLDER / f"{name}_config.json").read_text()))
    model.set_weights(arrays(f"{name}_weights").values())
    assert_outputs_equal_the_stored_ones(model, name)
