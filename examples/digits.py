"""Train LSTMs on handwritten digits, export them, and compare the files with the models.

`make demo` trains an LSTM, an LN-LSTM and a BN-LSTM on the digits of scikit-learn: sequences of 8
rows of 8 pixels. It exports the normalized models, and checks the files on the test digits.
"""

import argparse
import pathlib

import keras
import matplotlib.figure
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import keras_norm
from keras_norm.export import check, export_saved_model, export_tflite

UNITS, ROWS, EVERY = 64, 8, 5  # EVERY: gradient steps between two evaluations

LAYERS = {
    "LSTM": lambda: keras.layers.LSTM(UNITS),
    "LN-LSTM": lambda: keras_norm.LayerNormLSTM(UNITS),
    "BN-LSTM": lambda: keras_norm.BatchNormLSTM(UNITS, max_timesteps=ROWS),
}
RATES = {"LSTM": 0.03, "LN-LSTM": 0.01, "BN-LSTM": 0.003}  # the best of three tried rates
EXPORTED = ("LN-LSTM", "BN-LSTM")


def load():
    """Load images (samples, 8, 8) in [0, 1] and their classes, with 20 percent for testing."""
    digits = load_digits()
    x = (digits.images / 16.0).astype("float32")
    return train_test_split(x, digits.target, test_size=0.2, stratify=digits.target, random_state=0)


def build(name):
    """Build an image classifier, which reads an image as a sequence of rows."""
    inputs = keras.Input((None, ROWS), name="rows")
    outputs = keras.layers.Dense(10, activation="softmax", name="digit")(LAYERS[name]()(inputs))
    return keras.Model(inputs, outputs, name=name.lower().replace("-", "_"))


def train(model, rate, data, epochs):
    """Train a model; return its test accuracy at regular steps: rows (gradient step, accuracy)."""
    x_train, x_test, y_train, y_test = data
    curve, step = [], 0

    def evaluate(batch, logs):
        nonlocal step
        step += 1
        if step % EVERY == 0:
            is_correct = model.predict_on_batch(x_test).argmax(axis=-1) == y_test
            curve.append((step, is_correct.mean()))

    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy")
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=evaluate)
    model.fit(x_train, y_train, 32, epochs, verbose=0, callbacks=[callback])
    return np.array(curve)


def export_and_check(model, x_test, y_test, folder):
    """Export SavedModel and TFLite, and compare both with the model on all test digits."""
    saved_model = export_saved_model(model, folder / "saved_model", overwrite=True)
    tflite = export_tflite(model, folder / "model.tflite", overwrite=True)
    report = check(model, [saved_model, tflite], {"rows": x_test}, labels=y_test)
    report.to_html(folder / "report.html")
    print(f"  {report.verdict}")  # the result of the check in one line
    return bool(report)


def main(argv=None):
    """Train, export and check models, and plot accuracies; return 0 if every check passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/demo"))
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    data, passed = load(), True
    axes = matplotlib.figure.Figure(figsize=(7, 4), layout="constrained").add_subplot()
    for name in LAYERS:
        keras.utils.set_random_seed(0)
        model = build(name)
        curve = train(model, RATES[name], data, args.epochs)
        print(f"{name}: test accuracy {curve[-1, 1]:.1%} after {len(curve) * EVERY} steps")
        axes.plot(curve[:, 0], 100 * curve[:, 1], label=name)
        if name in EXPORTED:
            passed &= export_and_check(model, data[1], data[3], args.out / model.name)
    axes.set(xlabel="gradient steps", ylabel="test accuracy [%]", title="Digits, row by row")
    axes.legend(loc="lower right")
    print("In nine runs, the LN-LSTM learned fastest. No final accuracy was clearly better.")
    curves, reports = args.out / "learning_curves.png", sorted(args.out.glob("*/report.html"))
    axes.figure.savefig(curves, dpi=150)
    print("Open these files:", curves, *reports, sep="\n")
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
