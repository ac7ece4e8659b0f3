"""Read the code of the pages of migration, and write the files that they load."""

import pathlib
import re

import h5py
import keras
import numpy as np
import safetensors.numpy

import keras_norm
from tests.compat import recorded

GUIDES = pathlib.Path(__file__).parents[2] / "docs" / "guides"


def python_blocks(name):
    """Return the blocks of Python code of a page, without the indentation of a list."""
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", (GUIDES / name).read_text(), re.M | re.S)
    return [re.sub(f"^{indent}", "", block, flags=re.M) for indent, block in blocks]


def write_pytorch_files():
    """Write the files of the first block of from_pytorch.md, as PyTorch has computed them."""
    for name in ("tagger", "outputs"):
        safetensors.numpy.save_file(
            recorded.entries(recorded.TORCH, f"{name}.safetensors/"), f"{name}.safetensors"
        )


def haste_weights(features, units):
    """Return random weights of haste's LayerNormLSTM."""
    shapes = {"kernel": (features, 4 * units), "recurrent_kernel": (units, 4 * units)}
    shapes |= {"bias": (4 * units,), "gamma": (2, 4 * units), "gamma_h": (units,)}
    shapes |= {"beta_h": (units,)}
    return dict(zip(shapes, random_weights(shapes.values()), strict=True))


def dreamer_weights(features, units):
    """Return random weights of a GRU cell in a model of sheeprl."""
    shapes = {"linear.weight": (3 * units, units + features)}
    shapes |= {"layer_norm.weight": (3 * units,), "layer_norm.bias": (3 * units,)}
    names = (f"rssm.recurrent_model.rnn.{name}" for name in shapes)
    return dict(zip(names, random_weights(shapes.values()), strict=True))


def write_addons_files():
    """Write the model of from_addons.md as Keras 2 does, with its outputs, and return it."""
    norm = keras_norm.LayerNormalization(epsilon=1e-3)
    first, second = (
        keras_norm.NormLSTM(units, norm, normalize_carry=True, return_sequences=units == 64)
        for units in (64, 32)
    )
    layers = [keras.layers.Bidirectional(first), second, keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input((None, 8)), *layers])
    model.set_weights(random_weights([w.shape for w in model.weights]))
    x = np.random.default_rng(1).normal(size=(2, 5, 8)).astype("float32")
    np.savez("old_outputs.npz", x=x, y=model.predict(x, verbose=0))
    with h5py.File("old_model.h5", "w") as file:
        file.attrs["layer_names"] = [layer.name for layer in model.layers]
        for layer in model.layers:
            group = file.create_group(layer.name)
            names = [f"{k}/{variable.name}:0" for k, variable in enumerate(layer.weights)]
            group.attrs["weight_names"] = names
            for name, value in zip(names, layer.get_weights(), strict=True):
                group[name] = value
    return model


def write_kiros_archive(features, units):
    """Write an archive of Kiros' LN-GRU with random weights."""
    shapes = {"W": (features, 2 * units), "U": (units, 2 * units), "b": (2 * units,)}
    shapes |= {"Wx": (features, units), "Ux": (units, units), "bx": (units,)}
    shapes |= {
        f"{letter}{k}": (units * n,) for k, n in enumerate((2, 1, 2, 1), 1) for letter in "bs"
    }
    names = (f"encoder_{name}" for name in shapes)
    weights = random_weights(shapes.values())
    np.savez("lngru_may13_1700000.npz", **dict(zip(names, weights, strict=True)))


def random_weights(shapes):
    """Return normal random arrays of the shapes."""
    rng = np.random.default_rng(0)
    return [rng.normal(0, 0.2, shape).astype("float32") for shape in shapes]
