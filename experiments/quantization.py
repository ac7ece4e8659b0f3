"""Accuracy and error of quantized TFLite files on real data.

The models classify handwritten digits, read row by row, and questions (TREC). TREC needs the
environment variable KERAS_NORM_DATA to name a folder with `sentence_classification`. The models
are trained, exported in every way, and evaluated on test data.

`python -m experiments.quantization` prints a table of docs/design/quantized_files.md. With
`--streams` it prints the tables of single-step files on whole sequences: digits, questions by
characters, and MNIST by four pixels at a time. `--models "LN-GRU, joint"` measures one model.
"""

import argparse
import collections
import dataclasses
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from examples import digits
from experiments.harness import data, sentences
from keras_norm_cli import quiet_native_logs

with quiet_native_logs():  # TensorFlow writes to the terminal when it is imported
    import keras
    import tensorflow as tf

    import keras_norm
    from keras_norm.export import RunnerError, Step, VerificationError, export_tflite, open_runner
    from keras_norm.export.compare.quantization_tolerance import EIGHT_BITS
    from keras_norm.export.runtimes import channel
    from keras_norm.export.runtimes.worker_process import WorkerProcess

QUANTIZE = ("float16", "dynamic", "int8")
REPRESENTATIVE = 200
WORDS, LENGTH = 3000, 20
UNITS = 64

# Streams: characters of a question, images of MNIST, and timesteps of an image.
CHARACTERS = 80
IMAGES = {"train": 10_000, "test": 500}
PIECES = 196
STREAMED = ("LSTM", "LN-LSTM", "LN-GRU", "LN-GRU, joint", "LN-GRU, joint_all")
WHOLE = ("LSTM", "LN-LSTM", "LN-GRU", "BN-LSTM", "Conv1D, LN")
TIMED = 20  # sequences
STEP_QUANTIZE = (None, "float16", *EIGHT_BITS)

LAYERS: dict[str, Callable[[bool], keras.layers.Layer]] = {
    "LSTM": lambda unroll: keras.layers.LSTM(UNITS, unroll=unroll),
    "LN-LSTM": lambda unroll: keras_norm.LayerNormLSTM(UNITS, unroll=unroll),
    "LN-GRU": lambda unroll: keras_norm.LayerNormGRU(UNITS, unroll=unroll),
    "LN-GRU, joint": lambda unroll: keras_norm.LayerNormGRU(
        UNITS, norm_form="joint", unroll=unroll
    ),
    "LN-GRU, joint_all": lambda unroll: keras_norm.LayerNormGRU(
        UNITS, norm_form="joint_all", unroll=unroll
    ),
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
    """Sequences with labels, split into training and test."""

    name: str
    x_train: np.ndarray
    x_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    epochs: int


def tasks() -> Iterator[Task]:
    """Yield the digits, and the questions if their files exist."""
    yield Task("digits", *digits.load(), epochs=15)
    if _questions_are_there():
        yield _questions("TREC", lambda question: question.split()[-LENGTH:], LENGTH, epochs=4)


def streams() -> Iterator[Task]:
    """Yield the digits, questions by characters if their files exist, and MNIST."""
    yield Task("digits", *digits.load(), epochs=15)
    if _questions_are_there():
        yield _questions("TREC, characters", lambda q: list(q[:CHARACTERS]), CHARACTERS, epochs=20)
    parts = [data.from_tfds("mnist", f"{s}[:{n}]", _folder()) for s, n in IMAGES.items()]
    x_train, x_test = (part["image"].reshape(-1, PIECES, 784 // PIECES) / 255.0 for part in parts)
    y_train, y_test = (part["label"] for part in parts)
    x_train, x_test = x_train.astype("float32"), x_test.astype("float32")
    yield Task("MNIST, 196 x 4", x_train, x_test, y_train, y_test, epochs=6)


def _folder() -> pathlib.Path | None:
    known = os.environ.get("KERAS_NORM_DATA")
    return pathlib.Path(known) if known else None


def _questions_are_there() -> bool:
    folder = _folder()
    return folder is not None and (folder / sentences.FOLDER / "TREC.train.all").is_file()


def _questions(name: str, tokens: Callable[[str], list[str]], length: int, epochs: int) -> Task:
    sets = []
    for part in ("train", "test"):
        questions, labels = sentences.of_file(f"TREC.{part}.all", _folder())
        sets.append(([tokens(question) for question in questions], labels))
    (train, y_train), (test, y_test) = sets
    counts = collections.Counter(token for question in train for token in question)
    ids = {token: i for i, (token, _) in enumerate(counts.most_common(WORDS), start=1)}
    x_train, x_test = (_padded(questions, ids, length) for questions in (train, test))
    return Task(name, x_train, x_test, y_train, y_test, epochs)


def _padded(questions: list[list[str]], ids: dict[str, int], length: int) -> np.ndarray:
    """Return the token ids of each question, padded with zeros on the left."""
    rows = np.zeros((len(questions), length), "int32")
    for row, question in zip(rows, questions, strict=True):
        row[length - len(question) :] = [ids.get(token, 0) for token in question]
    return rows


def build(task: Task, layer: str, *, unroll: bool) -> keras.Model:
    """Build a classifier; with `unroll`, only for the task's own length."""
    shape = list(task.x_train.shape[1:])
    dtype = task.x_train.dtype.name
    inputs = keras.Input(shape if unroll else [None, *shape[1:]], dtype=dtype, name="x")
    hidden = inputs
    if dtype == "int32":
        hidden = keras.layers.Embedding(int(task.x_train.max()) + 1, 32)(hidden)
    classes = int(task.y_train.max()) + 1
    outputs = keras.layers.Dense(classes, activation="softmax")(LAYERS[layer](unroll)(hidden))
    return keras.Model(inputs, outputs)


def trained(task: Task, layer: str) -> keras.Model:
    """Train a classifier of sequences of any length."""
    keras.utils.set_random_seed(0)
    model = build(task, layer, unroll=False)
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy")
    model.fit(task.x_train, task.y_train, 64, task.epochs, verbose=0)
    return model


def measure(task: Task, layer: str, folder: pathlib.Path) -> list[str]:
    """Train one model and return its row of the table."""
    model = trained(task, layer)
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
                samples=samples,
            )
        except VerificationError:
            row.append("refused")
            continue
        with open_runner(path) as run:
            (actual,) = run({"x": task.x_test}).values()
        row.append(_cell(actual, expected, task))
    return row


def measure_stream(
    task: Task, layer: str, model: keras.Model, folder: pathlib.Path
) -> Iterator[list[str]]:
    """Yield the rows of a trained model: accuracies of its files, then sizes and times."""
    expected, step = model.predict(task.x_test, verbose=0), Step(model)
    accuracies, costs = [f"{_accuracy(expected, task):.1%}"], ["-"]
    for quantize in STEP_QUANTIZE:
        samples = task.x_train[:REPRESENTATIVE] if quantize in EIGHT_BITS else None
        path = folder / f"{task.name} {layer} step {quantize}.tflite"
        try:
            export_tflite(model, path, signature="step", quantize=quantize, samples=samples)
        except VerificationError:
            accuracies.append("refused")
            costs.append("-")
            continue
        with open_runner(path, signature_name="step") as run:
            (actual,) = step.over_time(run, {"x": task.x_test}).values()
            times = []
            for row in range(TIMED):
                step.over_time(run, {"x": task.x_test[row : row + 1]})
                times.append(run.seconds())
        accuracies.append(_cell(actual, expected, task))
        costs.append(f"{path.stat().st_size / 1e3:.0f} kB, {1e3 * np.median(times):.3f} ms")
    yield [task.name, layer, *accuracies]
    yield [task.name, layer, *costs]


def measure_tensorflow(task: Task, model: keras.Model, folder: pathlib.Path) -> Iterator[list[str]]:
    """Yield the rows of Keras' LSTM as TensorFlow converts it, for one batch and one length."""
    name, length = "LSTM, whole, by TensorFlow", task.x_test.shape[1]
    shape, dtype = task.x_test.shape[1:], task.x_test.dtype
    expected, saved_model = model.predict(task.x_test, verbose=0), folder / f"{task.name} saved"
    call = tf.function(lambda x: {"y": model(x, training=False)}, autograph=False)
    traced = call.get_concrete_function(tf.TensorSpec([1, *shape], dtype, name="x"))
    module = tf.Module()
    module.read = list(traced.variables)
    tf.saved_model.save(module, str(saved_model), signatures={"serving_default": traced})
    calibration = folder / "calibration"
    calibration.write_bytes(channel.pack({"x": task.x_train[:REPRESENTATIVE]}))
    accuracies, costs = [f"{_accuracy(expected, task):.1%}"], ["-"]
    for quantize in STEP_QUANTIZE:
        path = folder / f"{task.name} {quantize} by TensorFlow.tflite"
        request = {
            "saved_model": str(saved_model),
            "path": str(path),
            "quantize": quantize,
            "signatures": ["serving_default"],
            "calibration": {"path": str(calibration), "batch": 1},
        }
        try:
            with WorkerProcess("tflite/convert_tflite.py", subject="", timeout=600) as converter:
                converter.load(request)
        except RunnerError:
            accuracies.append("crashes")
            costs.append("-")
            continue
        with open_runner(path) as run:
            answers, times = [], []
            for x in task.x_test:
                (answer,) = run({"x": x[None]}).values()
                answers.append(answer)
                times.append(run.seconds() / length)
        accuracies.append(_cell(np.concatenate(answers), expected, task))
        costs.append(f"{path.stat().st_size / 1e3:.0f} kB, {1e3 * np.median(times):.3f} ms")
    yield [task.name, name, *accuracies]
    yield [task.name, name, *costs]


def _cell(actual: np.ndarray, expected: np.ndarray, task: Task) -> str:
    error = np.sqrt(np.mean(np.square(actual - expected)))
    return f"{_accuracy(actual, task):.1%} ({error:.1g})"


def _accuracy(probabilities: np.ndarray, task: Task) -> float:
    return float((probabilities.argmax(axis=-1) == task.y_test).mean())


def main() -> None:
    """Print the table; with `--streams`, the tables of files of one timestep."""
    parser = argparse.ArgumentParser(description="Accuracy of quantized TFLite files.")
    parser.add_argument("--streams", action="store_true", help="files of one timestep")
    parser.add_argument("--models", nargs="+", choices=LAYERS, help="default: all of the table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.streams:
            _print_streams(pathlib.Path(folder), arguments.models or STREAMED)
        else:
            _print_whole(pathlib.Path(folder), arguments.models or WHOLE)


def _print_whole(folder: pathlib.Path, layers: Sequence[str]) -> None:
    print("| data | model | Keras | float16 | dynamic | int8 |\n|---|---|---|---|---|---|")
    for task in tasks():
        for layer in layers:
            with quiet_native_logs():
                row = measure(task, layer, folder)
            print(f"| {' | '.join(row)} |", flush=True)


def _print_streams(folder: pathlib.Path, layers: Sequence[str]) -> None:
    all_accuracies, all_costs = [], []
    for task in streams():
        for layer in layers:
            with quiet_native_logs():
                model = trained(task, layer)
                rows = [list(measure_stream(task, layer, model, folder))]
                if layer == "LSTM":
                    rows.append(list(measure_tensorflow(task, model, folder)))
            for accuracies, costs in rows:
                print(*accuracies, *costs[3:], file=sys.stderr, flush=True)
                all_accuracies.append(accuracies)
                all_costs.append(costs)
    names = ["data", "model", "Keras", "float32", *map(str, STEP_QUANTIZE[1:])]
    # A table of the documentation has at most six columns.
    _print_columns(names, all_accuracies, [0, 1, 2, 4, 5, 7])
    _print_columns(names, all_accuracies, [0, 1, 2, 3, 6])
    _print_columns(names, all_costs, [0, 1, 3, 4, 5])
    _print_columns(names, all_costs, [0, 1, 6, 7])


def _print_columns(names: list[str], rows: list[list[str]], columns: list[int]) -> None:
    print(f"\n| {' | '.join(names[i] for i in columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row[i] for i in columns)} |")


if __name__ == "__main__":
    main()
