"""Layers, models and recorded files of TensorFlow Addons, for the tests of their weights."""

import functools
import pathlib

import keras
import numpy as np

import keras_norm

FEATURES, UNITS = 3, 4
FOLDER = pathlib.Path(__file__).parents[1] / "data" / "addons"


def addons_layer(epsilon=1e-3, return_sequences=True, **kwargs):
    layer = keras_norm.NormLSTM(
        UNITS,
        norm=keras_norm.LayerNormalization(epsilon=epsilon),
        normalize_carry=True,
        return_sequences=return_sequences,
        dtype="float64",
        **kwargs,
    )
    layer.build((None, 5, FEATURES))
    return layer


def addons_weights(seed=0):
    """Draw random weights in the order of tfa.rnn.LayerNormLSTMCell.get_weights()."""
    rng = np.random.default_rng(seed)
    shapes = [(FEATURES, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,)]
    shapes += [(4 * UNITS,)] * 4 + [(UNITS,)] * 2
    return [rng.normal(size=shape) for shape in shapes]


def recorded_arrays(name):
    """Return the arrays of get_weights() of a recorded model."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        return [file[f"arr_{k}"] for k in range(len(file.files))]


@functools.cache
def recorded_outputs():
    """Return the inputs, and the outputs of each recorded model by its name."""
    with np.load(FOLDER / "outputs.npz", allow_pickle=False) as file:
        return dict(file)


def create_model():
    """Create the recorded model, with NormLSTM in place of RNN(LayerNormLSTMCell)."""
    norm = keras_norm.LayerNormalization(epsilon=1e-3)
    options = {"norm": norm, "normalize_carry": True}
    cells = [keras_norm.NormLSTMCell(n, **options) for n in (UNITS, UNITS + 1)]
    recurrent = keras_norm.NormLSTM(UNITS, return_sequences=True, **options)
    nested = keras.Sequential([keras.layers.Dense(UNITS), keras_norm.BatchNormalization()])
    return keras.Sequential(
        [
            keras.Input((None, FEATURES)),
            keras.layers.TimeDistributed(nested),
            keras.layers.Bidirectional(recurrent),
            keras_norm.LayerNormalization(),
            keras.layers.RNN(cells, return_sequences=True),
            keras.layers.BatchNormalization(),
            keras.layers.Bidirectional(keras.layers.LSTM(UNITS)),
            keras.layers.Dense(2),
        ]
    )
