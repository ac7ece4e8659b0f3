"""The code of the pages of migration runs."""

import importlib.util
import subprocess
import sys

import h5py
import keras
import numpy as np
import pytest
import safetensors.numpy

from tests.compat import recorded
from tests.compat.pages import python_blocks


def run(block, names):
    exec(compile(block, "the page", "exec"), names)


def random_weights(shapes):
    rng = np.random.default_rng(0)
    return [rng.normal(0, 0.2, shape) for shape in shapes]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_page_of_pytorch():
    """`make test-compat` runs the first block, which needs PyTorch, and stores its files."""
    for name in ("tagger", "outputs"):
        safetensors.numpy.save_file(recorded.entries(f"{name}.safetensors"), f"{name}.safetensors")
    names = {"haste_state_dict": sized_like_haste(32, 64)}
    for block in python_blocks("from_pytorch.md")[1:]:
        run(block, names)


def sized_like_haste(features, units):
    shapes = {"kernel": (features, 4 * units), "recurrent_kernel": (units, 4 * units)}
    shapes |= {"bias": (4 * units,), "gamma": (2, 4 * units), "gamma_h": (units,)}
    shapes |= {"beta_h": (units,)}
    return dict(zip(shapes, random_weights(shapes.values()), strict=True))


def test_the_page_of_flax(folder):
    """The page runs in a process of its own: a process that has loaded JAX cannot load Triton."""
    if importlib.util.find_spec("flax") is None:
        pytest.skip("`make test-compat` has an environment with Flax")
    (folder / "page.py").write_text("\n".join(python_blocks("from_flax.md")))
    process = subprocess.run([sys.executable, "page.py"], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def write_hdf5(model, path):
    """Write the file of `save_weights` of Keras 2."""
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [layer.name for layer in model.layers]
        for layer in model.layers:
            group = file.create_group(layer.name)
            names = [f"{k}/{variable.name}:0" for k, variable in enumerate(layer.weights)]
            group.attrs["weight_names"] = names
            for name, value in zip(names, layer.get_weights(), strict=True):
                group[name] = value


def test_the_page_of_tensorflow_addons(folder):
    first, *blocks = python_blocks("from_addons.md")
    names = {}
    run(first.rpartition("keras_norm.compat")[0], names)
    old = names["model"]
    old.set_weights(random_weights([w.shape for w in old.weights]))
    x = np.random.default_rng(1).normal(size=(2, 5, 8)).astype("float32")
    y = old.predict(x, verbose=0)
    np.savez(folder / "old_outputs.npz", x=x, y=y)
    write_hdf5(old, folder / "old_model.h5")
    names = {"old_model": old}
    for block in (first, *blocks):
        run(block, names)
    np.testing.assert_array_equal(names["model"].predict(x, verbose=0), y)


def test_the_page_of_papers(folder):
    (block,) = python_blocks("from_papers.md")
    block = block.replace("2400", "8").replace("620", "6")
    shapes = {"W": (6, 16), "U": (8, 16), "b": (16,), "Wx": (6, 8), "Ux": (8, 8), "bx": (8,)}
    shapes |= {f"{letter}{k}": (8 * n,) for k, n in enumerate((2, 1, 2, 1), 1) for letter in "bs"}
    weights = random_weights(shapes.values())
    names = (f"encoder_{name}" for name in shapes)
    np.savez("lngru_may13_1700000.npz", **dict(zip(names, weights, strict=True)))
    names = {}
    run(block, names)
    assert isinstance(names["encoder"], keras.layers.Layer)
