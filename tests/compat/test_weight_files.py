"""Files of weights are read without pickle, and other files are refused."""

import pickle
import sys

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from keras_norm.compat import read_weights

WEIGHTS = {"lstm.weight": np.arange(6.0, dtype="float32").reshape(2, 3), "bias": np.ones(3)}


def write_safetensors(path, arrays):
    safetensors.numpy.save_file(arrays, path)


def write_npz(path, arrays):
    np.savez(path, **arrays)


@pytest.mark.parametrize(("name", "write"), [("a.safetensors", write_safetensors), ("a.NPZ", None)])
def test_a_file_gives_its_arrays_by_name(name, write, tmp_path):
    path = tmp_path / name
    if write is None:
        with path.open("wb") as file:
            np.savez(file, **WEIGHTS)
    else:
        write(path, WEIGHTS)
    arrays = read_weights(str(path))
    assert set(arrays) == set(WEIGHTS)
    for key, array in WEIGHTS.items():
        np.testing.assert_array_equal(arrays[key], array)


def test_a_safetensors_file_may_have_bfloat16(tmp_path):
    path = tmp_path / "half.safetensors"
    write_safetensors(path, {"w": np.array([1.5, -2.0]).astype(ml_dtypes.bfloat16)})
    np.testing.assert_array_equal(read_weights(path)["w"].astype("float32"), [1.5, -2.0])


class Program:
    """An object whose pickle runs code when it is loaded."""

    def __reduce__(self):
        return exec, ("raise AssertionError('the pickle was loaded')",)


@pytest.mark.parametrize("name", ["a.pt", "a.bin", "a.pkl", "a.safetensors"])
def test_a_pickle_is_named_and_never_loaded(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(pickle.dumps(Program()))
    with pytest.raises(ValueError, match=rf"{name}'.*safetensors") as refusal:
        read_weights(path)
    assert "\n" not in str(refusal.value)


def test_a_pickle_inside_an_npz_file_is_never_loaded(tmp_path):
    path = tmp_path / "a.npz"
    write_npz(path, {"w": np.array([Program()], dtype=object)})
    with pytest.raises(ValueError, match=r"a\.npz' is not a \.npz file .*False\. Write it"):
        read_weights(path)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("a.pt", r"safetensors\.torch\.save_file\(model\.state_dict\(\)"),
        ("a.msgpack", r"safetensors\.flax\.save_file\("),
    ],
)
def test_the_refusal_of_a_file_has_the_command_that_writes_a_safetensors_file(name, command):
    with pytest.raises(ValueError, match=command):
        read_weights(name)


@pytest.mark.parametrize("name", ["a.safetensors", "a.npz"])
def test_a_damaged_file_is_named(name, tmp_path):
    path = tmp_path / name
    (write_npz if name.endswith("npz") else write_safetensors)(path, WEIGHTS)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(ValueError, match=rf"{name}' is not a .* or is damaged"):
        read_weights(path)


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ModuleNotFoundError, match="pip install safetensors"):
        read_weights(tmp_path / "a.safetensors")
