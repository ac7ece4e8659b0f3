"""Classify gestures from a smartwatch's acceleration, a masked time series of any length.

`python -m examples.timeseries` trains a bidirectional LN-LSTM for one minute on 3,251 gestures of
20 classes. TFDS downloads the data, or reads them from $KERAS_NORM_DATA/tfds.
"""

import argparse
import os
import pathlib

import keras
import numpy as np
import tensorflow_datasets as tfds

import keras_norm
from keras_norm.export import check, export_saved_model, export_tflite

UNITS, CLASSES = 48, 20
AXES = ("accel_x", "accel_y", "accel_z")
HELD_OUT = (1, 2)  # participants whose gestures are the test data


def load(samples=None):
    """Load series (gestures, time, axes) padded with NaN, with their classes and participants."""
    folder = os.environ.get("KERAS_NORM_DATA")
    data_dir = folder and f"{folder}/tfds"
    try:
        data = tfds.load("smartwatch_gestures", split="train", data_dir=data_dir)
        rows = list(tfds.as_numpy(data.take(samples or -1)))
    except Exception as error:  # TFDS raises many classes of exceptions, so all are caught
        raise SystemExit(f"TFDS could not load smartwatch_gestures: {error}") from error
    series = [np.stack([row["features"][axis] for axis in AXES], axis=1) for row in rows]
    x = keras.utils.pad_sequences(series, padding="post", dtype="float32", value=np.nan)
    return x, *(np.array([int(row[key]) for row in rows]) for key in ("gesture", "participant"))


def build():
    """Build a classifier that masks the zeros after the end of a series."""
    inputs = keras.Input((None, len(AXES)), name="acceleration")
    x = keras.layers.Masking()(inputs)
    x = keras.layers.Bidirectional(keras_norm.LayerNormLSTM(UNITS, return_sequences=True))(x)
    x = keras.layers.Bidirectional(keras_norm.LayerNormLSTM(UNITS))(x)
    outputs = keras.layers.Dense(CLASSES, "softmax", name="gesture")(keras.layers.Dropout(0.3)(x))
    return keras.Model(inputs, outputs, name="gestures")


def main(argv=None):
    """Train, export and check a classifier; return 0 if the check passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/timeseries"))
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--samples", type=int, help="number of gestures to use (default: all)")
    args = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    x, classes, participants = load(args.samples)
    test = np.isin(participants, HELD_OUT)
    # Scale all series with the mean and deviation of the training series. The exported files
    # expect scaled series too.
    mean, deviation = (f(x[~test], axis=(0, 1)) for f in (np.nanmean, np.nanstd))
    x = np.nan_to_num((x - mean) / deviation)

    model = build()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x[~test], classes[~test], 32, args.epochs, verbose=2)
    _, accuracy = model.evaluate(x[test], classes[test], verbose=0)
    print(
        f"accuracy {accuracy:.1%} on {test.sum()} gestures of participants not in the training data"
    )
    files = [
        export_saved_model(model, args.out / "saved_model", overwrite=True),
        export_tflite(model, args.out / "model.tflite", overwrite=True),
    ]
    report = check(model, files, x[test], labels=classes[test])
    report.print()
    return 0 if report else 1


if __name__ == "__main__":
    raise SystemExit(main())
