"""Recognise gestures by a smartwatch's acceleration: a time series of any length, masked.

3,251 gestures of twenty kinds, which TFDS downloads (or finds in the folder `tfds` of the one that
KERAS_NORM_DATA names), train a bidirectional LN-LSTM for a minute: `python -m examples.timeseries`.
"""

import argparse
import os
import pathlib

import keras
import numpy as np
import tensorflow_datasets as tfds

import keras_norm
from keras_norm.export import check, export_saved_model, export_tflite

UNITS, KINDS = 48, 20
AXES = ("accel_x", "accel_y", "accel_z")
HELD_OUT = (1, 2)  # the participants whose gestures are the test


def load(samples=None):
    """Series (gestures, time, axes), NaN behind their ends; their kinds; who made them."""
    folder = os.environ.get("KERAS_NORM_DATA")
    data_dir = folder and f"{folder}/tfds"
    try:
        data = tfds.load("smartwatch_gestures", split="train", data_dir=data_dir)
        rows = list(tfds.as_numpy(data.take(samples or -1)))
    except Exception as error:  # TFDS has many, of no common kind
        raise SystemExit(f"TFDS could not load smartwatch_gestures: {error}") from error
    series = [np.stack([row["features"][axis] for axis in AXES], axis=1) for row in rows]
    x = keras.utils.pad_sequences(series, padding="post", dtype="float32", value=np.nan)
    return x, *(np.array([int(row[key]) for row in rows]) for key in ("gesture", "participant"))


def build():
    """A classifier of series with zeros behind their ends, which it masks."""
    inputs = keras.Input((None, len(AXES)), name="acceleration")
    x = keras.layers.Masking()(inputs)
    x = keras.layers.Bidirectional(keras_norm.LayerNormLSTM(UNITS, return_sequences=True))(x)
    x = keras.layers.Bidirectional(keras_norm.LayerNormLSTM(UNITS))(x)
    outputs = keras.layers.Dense(KINDS, "softmax", name="gesture")(keras.layers.Dropout(0.3)(x))
    return keras.Model(inputs, outputs, name="gestures")


def main(argv=None):
    """Train, export and check; 0 when the check passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/timeseries"))
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--samples", type=int, help="how many gestures; else all")
    args = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    x, kinds, people = load(args.samples)
    test = np.isin(people, HELD_OUT)
    # Each axis in units of its deviation: a number that is kept, as a server needs it too.
    mean, deviation = (f(x[~test], axis=(0, 1)) for f in (np.nanmean, np.nanstd))
    x = np.nan_to_num((x - mean) / deviation)

    model = build()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x[~test], kinds[~test], 32, args.epochs, verbose=2)
    _, accuracy = model.evaluate(x[test], kinds[test], verbose=0)
    print(f"{accuracy:.1%} of {test.sum()} gestures of people it never met are recognised")
    files = [
        export_saved_model(model, args.out / "saved_model", overwrite=True),
        export_tflite(model, args.out / "model.tflite", overwrite=True),
    ]
    report = check(model, files, x[test], labels=kinds[test])
    report.print()
    return 0 if report else 1


if __name__ == "__main__":
    raise SystemExit(main())
