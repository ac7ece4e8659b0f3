"""Files, configurations and weights of earlier versions load, and compute the same."""

import json
import pathlib
import zipfile

import keras
import numpy as np
import pytest

import keras_norm  # noqa: F401  registers the classes

FOLDER = pathlib.Path(__file__).parent / "data"
NAMES = sorted(path.stem for path in FOLDER.glob("*.keras"))
TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}


def arrays(name):
    with np.load(FOLDER / f"{name}.npz") as file:
        return dict(file)


def assert_computes_as_before(model, name):
    outputs, expected = model(arrays(f"{name}_inputs"), training=False), arrays(f"{name}_outputs")
    assert set(outputs) == set(expected)
    for key, y in outputs.items():
        tolerance = TOLERANCE[keras.backend.standardize_dtype(y.dtype)]
        y = np.asarray(y, "float64")
        np.testing.assert_allclose(y, expected[key], rtol=tolerance, atol=tolerance, err_msg=key)


def assert_holds(new, old, path=""):
    """Every value of an old configuration stands in the new one, which may have more."""
    if isinstance(old, dict):
        keys = set(old) - {"shared_object_id"}  # which files alone have
        assert keys <= set(new), path
        pairs = [(key, new[key], old[key]) for key in keys]
    elif isinstance(old, list):
        assert len(new) == len(old), path
        pairs = [(i, *pair) for i, pair in enumerate(zip(new, old, strict=True))]
    else:
        assert new == old, path
        return
    for key, *pair in pairs:
        assert_holds(*pair, f"{path}/{key}")


def test_there_are_files():
    assert len(NAMES) == 7


@pytest.mark.parametrize("name", NAMES)
def test_a_file_computes_what_it_did(name):
    path = FOLDER / f"{name}.keras"
    model = keras.models.load_model(path)
    assert_computes_as_before(model, name)
    with zipfile.ZipFile(path) as file:
        old = json.loads(file.read("config.json"))["config"]
    assert_holds(json.loads(json.dumps(model.get_config())), old)


@pytest.mark.parametrize("name", ["gru", "norms"])
def test_a_configuration_and_weights_compute_what_they_did(name):
    model = keras.Model.from_config(json.loads((FOLDER / f"{name}_config.json").read_text()))
    model.set_weights(arrays(f"{name}_weights").values())
    assert_computes_as_before(model, name)
