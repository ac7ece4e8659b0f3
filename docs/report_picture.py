"""Make docs/pictures/report.png, a picture of the report of a character model: make report-picture.

An LN-LSTM learns to predict the next character of Tiny Shakespeare. It is exported as SavedModel
and as three TFLite files, in float32, in float16 and with 8-bit weights. The float32 file is
exported one epoch too early, and the check finds that. A headless Chromium makes the picture of
the HTML report.

The text comes from $KERAS_NORM_DATA/tfds, or is downloaded by TFDS. The models and the report stay
in build/report.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np
import tensorflow_datasets as tfds

from keras_norm_cli import quiet_native_logs

with quiet_native_logs():  # TensorFlow writes to the terminal when it is imported
    import keras

    import keras_norm
    from keras_norm.export import check, export_saved_model, export_tflite

FOLDER = pathlib.Path("build/report")
PICTURE = pathlib.Path("docs/pictures/report.png")
SIZE = (1100, 1650)  # pixels for the verdict, the values and the first map
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

LENGTH, UNITS, BATCH, SAMPLES, EPOCHS = 100, 128, 64, 64, 12
LEARNING_RATE = 5e-3


def windows() -> tuple[np.ndarray, np.ndarray, int]:
    """Load windows of LENGTH + 1 character ids for training and test, and the alphabet's size."""
    folder = os.environ.get("KERAS_NORM_DATA")
    parts = tfds.load(
        "tiny_shakespeare",
        split=["train", "test"],
        data_dir=folder and f"{folder}/tfds",
        download=folder is None,
    )
    train, test = (next(iter(part.as_numpy_iterator()))["text"].decode() for part in parts)
    alphabet = sorted(set(train + test))
    number = {character: k for k, character in enumerate(alphabet)}

    def cut(text: str) -> np.ndarray:
        count = len(text) // (LENGTH + 1)
        numbers = [number[c] for c in text[: count * (LENGTH + 1)]]
        return np.array(numbers, "int32").reshape(count, LENGTH + 1)

    return cut(train), cut(test), len(alphabet)


def new_model(characters: int) -> keras.Model:
    """Build a model that returns the probabilities of each next character."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None,), dtype="int32", name="characters")
    h = keras.layers.Embedding(characters, 32)(inputs)
    h = keras_norm.LayerNormLSTM(UNITS, return_sequences=True)(h)
    outputs = keras.layers.Dense(characters, activation="softmax", name="next")(h)
    model = keras.Model(inputs, outputs, name="tiny_shakespeare")
    model.compile(keras.optimizers.Adam(LEARNING_RATE), "sparse_categorical_crossentropy")
    return model


def train_and_export(model: keras.Model, texts: np.ndarray) -> list[pathlib.Path]:
    """Train the model, and export four files to FOLDER; the float32 file is an epoch too old."""
    x, y = texts[:, :-1], texts[:, 1:]
    model.fit(x, y, BATCH, epochs=EPOCHS - 1, verbose=2)
    old = export_tflite(model, FOLDER / "old.tflite")
    model.fit(x, y, BATCH, epochs=EPOCHS, initial_epoch=EPOCHS - 1, verbose=2)
    files = [
        export_tflite(model, FOLDER / f"{name}.tflite", quantize=name)
        for name in ("float16", "dynamic")
    ]
    return [export_saved_model(model, FOLDER / "saved_model"), old, *files]


def photograph(page: pathlib.Path) -> None:
    """Save a picture of the top of an HTML page as PICTURE."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(
            f"The report is {page}. The picture needs one of these browsers: {', '.join(BROWSERS)}."
        )
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser,
                *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", "--hide-scrollbars"),
                f"--user-data-dir={profile}",
                f"--window-size={SIZE[0]},{SIZE[1]}",
                f"--screenshot={PICTURE.resolve()}",
                page.resolve().as_uri(),
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )


def main() -> None:
    """Train, export, check, and take the picture."""
    shutil.rmtree(FOLDER, ignore_errors=True)  # files of an earlier run
    FOLDER.mkdir(parents=True)
    texts, test, characters = windows()
    model = new_model(characters)
    artifacts = train_and_export(model, texts)
    loss = model.evaluate(test[:, :-1], test[:, 1:], verbose=0)
    print(f"{loss / np.log(2):.2f} bits per character of the test text")
    model.save(FOLDER / "model.keras")
    np.savez(FOLDER / "samples.npz", characters=test[:SAMPLES, :-1])
    report = check(model, artifacts, test[:SAMPLES, :-1], labels=test[:SAMPLES, 1:])
    report.print()
    report.to_html(FOLDER / "report.html")
    photograph(FOLDER / "report.html")


if __name__ == "__main__":
    main()
