"""What fewer bits cost: accuracy and error of quantised TFLite files, on real data.

Classifiers of handwritten digits, read row by row, and of questions (TREC, where the environment
variable KERAS_NORM_DATA names a folder with `sentence_classification`) are trained, exported in
every way, and run on what they were not trained on.

Run with `python -m experiments.quantization`; it prints the table of docs/export.md.
"""

import collections
import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

from examples import digits
from keras_norm_cli import quiet_native_logs

with quiet_native_logs():  # TensorFlow writes to the terminal when it is imported
    import keras

    import keras_norm
    from keras_norm.export import VerificationError, export_tflite, open_runner

QUANTIZE = ("float16", "dynamic", "int8")
REPRESENTATIVE = 200
WORDS, LENGTH = 3000, 20
UNITS = 64

LAYERS: dict[str, Callable[[bool], keras.layers.Layer]] = {
    "LSTM": lambda unroll: keras_norm.NormLSTM(UNITS, unroll=unroll),
    "LN-LSTM": lambda unroll: keras_norm.LayerNormLSTM(UNITS, unroll=unroll),
    "LN-GRU": lambda unroll: keras_norm.LayerNormGRU(UNITS, unroll=unroll),
    "BN-LSTM": lambda unroll: keras_norm.BatchNormLSTM(UNITS, max_timesteps=LENGTH, unroll=unroll),
    "Conv1D, LN": lambda unroll: keras.Sequential(
        [
            keras.layers.Conv1D(UNITS, 3),
            keras_norm.LayerNormalization(),
            keras.layers.ReLU(),
            keras.layers.GlobalMaxPooling1D(),
        ]
    ),
}


@dataclasses.dataclass(frozen=True)
class Task:
    """Sequences with labels, split in two."""

    name: str
    x_train: np.ndarray
    x_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    epochs: int


def tasks() -> Iterator[Task]:
    """The digits, and the questions where they are."""
    yield Task("digits", *digits.load(), epochs=15)
    folder = pathlib.Path(os.environ.get("KERAS_NORM_DATA", "")) / "sentence_classification"
    if not folder.is_dir():
        return
    sets = []
    for part in ("train", "test"):
        lines = (folder / f"TREC.{part}.all").read_text("latin-1").splitlines()
        labels, questions = zip(*(line.split(" ", 1) for line in lines), strict=True)
        sets.append(([question.split() for question in questions], np.array(labels, int)))
    (train, y_train), (test, y_test) = sets
    counts = collections.Counter(word for question in train for word in question)
    ids = {word: i for i, (word, _) in enumerate(counts.most_common(WORDS), start=1)}
    x_train, x_test = (_padded(questions, ids) for questions in (train, test))
    yield Task("TREC", x_train, x_test, y_train, y_test, epochs=4)


def _padded(questions: list[list[str]], ids: dict[str, int]) -> np.ndarray:
    """The ids of the last words of each question, after zeros where there are fewer."""
    rows = np.zeros((len(questions), LENGTH), "int32")
    for row, question in zip(rows, questions, strict=True):
        known = [ids.get(word, 0) for word in question[-LENGTH:]]
        row[LENGTH - len(known) :] = known
    return rows


def build(task: Task, layer: str, *, unroll: bool) -> keras.Model:
    """A classifier; with `unroll`, of sequences of the task's own length only."""
    shape = list(task.x_train.shape[1:])
    dtype = task.x_train.dtype.name
    inputs = keras.Input(shape if unroll else [None, *shape[1:]], dtype=dtype, name="x")
    hidden = inputs
    if dtype == "int32":
        hidden = keras.layers.Embedding(WORDS + 1, 32)(hidden)
    classes = int(task.y_train.max()) + 1
    outputs = keras.layers.Dense(classes, activation="softmax")(LAYERS[layer](unroll)(hidden))
    return keras.Model(inputs, outputs)


def measure(task: Task, layer: str, folder: pathlib.Path) -> list[str]:
    """Train one model; its row of the table."""
    keras.utils.set_random_seed(0)
    model = build(task, layer, unroll=False)
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy")
    model.fit(task.x_train, task.y_train, 64, task.epochs, verbose=0)
    expected = model.predict(task.x_test, verbose=0)
    row = [task.name, layer, f"{_accuracy(expected, task):.1%}"]
    unrolled = build(task, layer, unroll=True)
    unrolled.set_weights(model.get_weights())
    for quantize in QUANTIZE:
        path = folder / f"{task.name} {layer} {quantize}.tflite"
        samples = None if quantize == "float16" else task.x_train[:REPRESENTATIVE]
        try:
            export_tflite(
                unrolled if quantize == "int8" else model,
                path,
                quantize=quantize,
                representative=samples,
            )
        except VerificationError:
            row.append("refused")
            continue
        with open_runner(path) as run:
            (actual,) = run({"x": task.x_test}).values()
        error = np.sqrt(np.mean(np.square(actual - expected)))
        row.append(f"{_accuracy(actual, task):.1%} ({error:.1g})")
    return row


def _accuracy(probabilities: np.ndarray, task: Task) -> float:
    return float((probabilities.argmax(axis=-1) == task.y_test).mean())


def main() -> None:
    """Print the table."""
    print("| data | model | Keras | float16 | dynamic | int8 |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks():
            for layer in LAYERS:
                with quiet_native_logs():
                    row = measure(task, layer, pathlib.Path(folder))
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
