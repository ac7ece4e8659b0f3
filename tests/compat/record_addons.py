"""Record weights and outputs of TensorFlow Addons' cell: python -m tests.compat.record_addons.

`make test-compat` runs this program in an environment with tensorflow-addons and tf_keras, and then
the tests. It writes the files of tests/data/addons, with which `make test` compares.

The package tensorflow_addons does not import with today's TensorFlow. This program executes the
file of the cell alone, with Keras 2.
"""

import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile
import types
from typing import Any

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf

FOLDER = pathlib.Path(__file__).parents[1] / "data" / "addons"
MODULE = "tensorflow_addons.rnn.layer_norm_lstm_cell"
TYPES = ("Activation", "Constraint", "FloatTensorLike", "Initializer", "Regularizer", "TensorLike")
FEATURES, UNITS = 3, 4
layers = tf.keras.layers


def load_cell_class() -> type:
    """Execute the installed source of the cell, without the other modules of the package."""
    path = importlib.metadata.distribution("tensorflow-addons").locate_file(
        f"{MODULE.replace('.', '/')}.py"
    )
    for name in ("tensorflow_addons", "tensorflow_addons.utils", "tensorflow_addons.utils.types"):
        sys.modules[name] = types.ModuleType(name)
    vars(sys.modules["tensorflow_addons.utils.types"]).update(dict.fromkeys(TYPES, Any))
    spec = importlib.util.spec_from_file_location(MODULE, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LayerNormLSTMCell


def create_models(cell) -> dict:
    """Create the models to record, by name."""
    inputs = tf.keras.Input((None, FEATURES))
    nested = tf.keras.Sequential([layers.Dense(UNITS), layers.BatchNormalization()], name="nested")
    recurrent = layers.RNN(cell(UNITS), return_sequences=True)

    def sequential(*of_model):
        return tf.keras.Sequential([tf.keras.Input((None, FEATURES)), *of_model])

    x = layers.Bidirectional(recurrent)(layers.TimeDistributed(nested)(inputs))
    x = layers.LayerNormalization()(x)
    x = layers.RNN([cell(UNITS), cell(UNITS + 1)], return_sequences=True)(x)
    x = layers.Bidirectional(layers.LSTM(UNITS))(layers.BatchNormalization()(x))
    return {
        "rnn": sequential(layers.RNN(cell(UNITS), return_sequences=True)),
        "without_bias": sequential(layers.RNN(cell(UNITS, use_bias=False))),
        "epsilon": sequential(layers.RNN(cell(UNITS, norm_epsilon=0.1))),
        "backwards": sequential(layers.RNN(cell(UNITS), go_backwards=True)),
        "model": tf.keras.Model(inputs, layers.Dense(2)(x)),
    }


def randomize(model) -> None:
    rng = np.random.default_rng(0)
    values = [rng.normal(0, 0.5, w.shape) for w in model.weights]
    pairs = zip(model.weights, values, strict=True)
    model.set_weights([np.abs(v) if "variance" in w.name else v for w, v in pairs])


def main() -> None:
    try:
        version = importlib.metadata.version("tensorflow-addons")
    except importlib.metadata.PackageNotFoundError:
        print(f"tensorflow-addons is not installed. The files of {FOLDER} stay as they are.")
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    models = create_models(load_cell_class())
    x = np.random.default_rng(1).normal(size=(2, 5, FEATURES)).astype("float32")
    versions = f"tensorflow-addons {version}, TensorFlow {tf.__version__}"
    outputs = {"inputs": x, "versions": np.array(versions)}
    for name, model in models.items():
        randomize(model)
        outputs[name] = model(x).numpy()
        np.savez_compressed(FOLDER / f"{name}.npz", *model.get_weights())
    np.savez_compressed(FOLDER / "outputs.npz", **outputs)
    model = models["model"]
    model.save(FOLDER / "model.h5")
    model.save_weights(FOLDER / "checkpoint" / "weights")
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        shutil.copytree(f"{folder}/variables", FOLDER / "saved_model" / "variables")
    print(f"{FOLDER}: {len(models)} models of {versions}")


if __name__ == "__main__":
    main()
