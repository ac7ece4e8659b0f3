"""The command `keras-norm` on models, SavedModels and data in one folder."""

import shutil

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import export_saved_model
from keras_norm_cli import main


@pytest.fixture(scope="package")
def folder(written, tmp_path_factory):
    """Copy the folder of models and data, so that tests of one process can write to it."""
    return shutil.copytree(written("cli", write), tmp_path_factory.mktemp("cli") / "folder")


def write(folder):
    """Save models, a SavedModel with the weights of a model and one with others, and data."""
    folder.mkdir()
    inputs = keras.Input((None, 3), name="x")
    # No recurrence: every command on one takes seconds, and the tests run many.
    h = keras.layers.GlobalAveragePooling1D()(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="y")(h))
    model.save(folder / "model.keras")
    export_saved_model(model, folder / "right")
    model.set_weights([w + 0.1 for w in model.get_weights()])
    export_saved_model(model, folder / "wrong")
    data = np.random.default_rng(0).normal(size=(8, 3, 3)).astype("float32")
    np.savez(folder / "data.npz", x=data)
    np.savez(folder / "labels.npz", y=np.arange(8) % 2)
    np.save(folder / "data.npy", data)
    np.save(folder / "labels.npy", np.arange(8) % 2)
    lstm = keras_norm.BatchNormLSTM(4, max_timesteps=5, name="lstm")
    digits = keras.Model(inputs, keras.layers.Dense(2, name="y")(lstm(inputs)), name="digits")
    digits(data, training=True)
    digits.save(folder / "digits.keras")


@pytest.fixture
def run(folder, capfd):
    """Run a command; {} in an argument is the folder."""

    def command(*arguments):
        status = main([str(argument).format(folder) for argument in arguments])
        return status, *capfd.readouterr()

    return command
