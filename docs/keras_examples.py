"""Models of the architectures that keras.io/examples and Keras' guides publish, at their sizes.

`python -m docs.keras_examples` exports each with one line, checks both files, and prints
the table of docs/guides/keras_layers.md.
"""

import pathlib
import tempfile
from collections.abc import Callable

import keras
import numpy as np
from keras import layers

from keras_norm.export import UnsupportedOpError, check, export_saved_model, export_tflite
from keras_norm.export.signature import input_specs


def imdb() -> keras.Model:
    """Bidirectional LSTM on IMDB."""
    ids = keras.Input((None,), dtype="int32")
    x = layers.Embedding(20000, 128)(ids)
    x = layers.Bidirectional(layers.LSTM(64, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(64))(x)
    return keras.Model(ids, layers.Dense(1, activation="sigmoid")(x))


def character_generation() -> keras.Model:
    """Character-level text generation with LSTM."""
    return keras.Sequential(
        [keras.Input((40, 56)), layers.LSTM(128), layers.Dense(56, activation="softmax")]
    )


def addition() -> keras.Model:
    """Sequence to sequence learning for performing number addition."""
    return keras.Sequential(
        [
            keras.Input((7, 12)),
            layers.LSTM(128),
            layers.RepeatVector(4),
            layers.LSTM(128, return_sequences=True),
            layers.Dense(12, activation="softmax"),
        ]
    )


def translation() -> keras.Model:
    """Character-level recurrent sequence-to-sequence model."""
    source, target = keras.Input((None, 71)), keras.Input((None, 93))
    _, *states = layers.LSTM(256, return_state=True)(source)
    path, *_ = layers.LSTM(256, return_sequences=True, return_state=True)(
        target, initial_state=states
    )
    return keras.Model([source, target], layers.Dense(93, activation="softmax")(path))


def weather() -> keras.Model:
    """Timeseries forecasting for weather prediction."""
    x = keras.Input((120, 7))
    return keras.Model(x, layers.Dense(1)(layers.LSTM(32)(x)))


def guide() -> keras.Model:
    """Guide: Working with RNNs."""
    ids = keras.Input((None,), dtype="int32")
    x = layers.Embedding(1000, 64, mask_zero=True)(ids)
    x = layers.GRU(256, return_sequences=True)(x)
    x = layers.SimpleRNN(128)(x)
    return keras.Model(ids, layers.Dense(10)(x))


def video() -> keras.Model:
    """Video classification with a CNN-RNN architecture."""
    frames, mask = keras.Input((20, 2048)), keras.Input((20,), dtype="bool")
    x = layers.GRU(16, return_sequences=True)(frames, mask=mask)
    x = layers.Dropout(0.4)(layers.GRU(8)(x))
    x = layers.Dense(8, activation="relu")(x)
    return keras.Model([frames, mask], layers.Dense(5, activation="softmax")(x))


def captcha() -> keras.Model:
    """OCR model for reading captchas."""
    image = keras.Input((200, 50, 1))
    x = layers.Conv2D(32, 3, activation="relu", padding="same")(image)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(64, 3, activation="relu", padding="same")(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Dense(64, activation="relu")(layers.Reshape((50, 768))(x))
    x = layers.Bidirectional(layers.LSTM(128, return_sequences=True, dropout=0.25))(x)
    x = layers.Bidirectional(layers.LSTM(64, return_sequences=True, dropout=0.25))(x)
    return keras.Model(image, layers.Dense(20, activation="softmax")(x))


def speech() -> keras.Model:
    """Automatic speech recognition using CTC."""
    spectrogram = keras.Input((None, 193))
    x = layers.Reshape((-1, 193, 1))(spectrogram)
    for size, strides in (((11, 41), (2, 2)), ((11, 21), (1, 2))):
        x = layers.Conv2D(32, size, strides, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Reshape((-1, x.shape[-2] * x.shape[-1]))(x)
    for _ in range(5):
        x = layers.Bidirectional(layers.GRU(512, return_sequences=True))(x)
        x = layers.Dropout(0.5)(x)
    x = layers.ReLU()(layers.Dense(1024)(x))
    return keras.Model(spectrogram, layers.Dense(32, activation="softmax")(x))


def next_frame() -> keras.Model:
    """Next-frame video prediction with convolutional LSTMs."""
    x = frames = keras.Input((None, 64, 64, 1))
    for size in (5, 3, 1):
        x = layers.ConvLSTM2D(64, size, padding="same", return_sequences=True, activation="relu")(x)
        x = layers.BatchNormalization()(x)
    x = layers.Conv3D(1, 3, activation="sigmoid", padding="same")(x)
    return keras.Model(frames, x)


EXAMPLES = [
    imdb,
    character_generation,
    addition,
    translation,
    weather,
    guide,
    video,
    captcha,
    speech,
    next_frame,
]
SAMPLES, TIME = 8, 20


def draw(model: keras.Model) -> dict[str, np.ndarray]:
    """Random inputs."""
    rng = np.random.default_rng(0)
    drawn = {}
    for name, spec in input_specs(model).items():
        shape = [SAMPLES, *(n or TIME for n in spec.shape[1:])]
        if spec.dtype == "bool":
            drawn[name] = np.arange(shape[1]) < rng.integers(3, shape[1] + 1, (SAMPLES, 1))
        elif spec.dtype == "int32":
            drawn[name] = rng.integers(1, 1000, shape).astype("int32")
        else:
            drawn[name] = rng.normal(size=shape).astype("float32")
    return drawn


def row(make: Callable[[], keras.Model], folder: pathlib.Path) -> str:
    """One line of the table."""
    keras.utils.set_random_seed(0)
    model, files, said = make(), [], []
    for export, name in ((export_saved_model, "m"), (export_tflite, "m.tflite")):
        try:
            files.append(export(model, folder / name))
            said.append("written")
        except UnsupportedOpError:
            said.append("refused")
    report = check(model, files, draw(model), batch_sizes=[1, 3])
    worst = max(o.max_abs or 0.0 for a in report.artifacts for o in a.outputs)
    passed = "pass" if report else "fail"
    return f"| {make.__doc__.rstrip('.')} | {' | '.join(said)} | {passed}, {worst:.1e} |"


def main() -> None:
    """Print the table."""
    print("| | SavedModel | TFLite | check, largest difference |\n|---|---|---|---|")
    for make in EXAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            print(row(make, pathlib.Path(folder)), flush=True)


if __name__ == "__main__":
    main()
