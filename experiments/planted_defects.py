"""Share of planted defects that the check finds in TFLite files of every precision.

`python -m experiments.planted_defects` prints a table of docs/design/quantization_errors.md. It
trains two classifiers of handwritten digits and exports each in every precision: the step of an
LN-LSTM, and whole sequences of a BN-GRU. Every constant of a file is then changed in four ways. The
outputs of each changed file are compared with the tolerance of the check, and its constants with
those of a new export from other samples.
"""

import dataclasses
import pathlib
import tempfile
from collections.abc import Callable, Iterator

import flatbuffers
import numpy as np

from examples import digits
from keras_norm_cli import quiet_native_logs

with quiet_native_logs():  # TensorFlow writes to the terminal when it is imported
    import keras

    import keras_norm
    from keras_norm.export import Step, export_tflite
    from keras_norm.export.checks.properties.constants import Constants
    from keras_norm.export.compare.expected import Expected
    from keras_norm.export.compare.output_differences import measure
    from keras_norm.export.compare.quantization_tolerance import (
        EIGHT_BITS,
        spreads,
        useful_tolerance,
    )
    from keras_norm.export.compare.tolerance import Tolerance
    from keras_norm.export.errors import RunnerError
    from keras_norm.export.formats.tflite.constant_differences import find_differences
    from keras_norm.export.formats.tflite.tflite_file import parse_tflite
    from keras_norm.export.formats.tflite.tflite_graph import TFLiteGraph, read_graph
    from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
    from keras_norm.export.signature import SERVING_DEFAULT, STEP
    from keras_norm.typing import Array, Arrays

UNITS, EPOCHS, SAMPLES, TESTED = 32, 12, 100, 128
LENGTHS = (1, 4, 8)
PRECISIONS = (None, "float16", "dynamic", "int8", "int16x8")


def negate_largest(values: Array) -> Array:
    """Change the sign of the value with the largest absolute value."""
    changed = values.copy()
    changed.flat[np.abs(values).argmax()] *= -1
    return changed


# Defect -> function from a constant to the wrong constant.
DEFECTS: dict[str, Callable[[Array], Array]] = {
    "scaled": lambda values: 0.8 * values,
    "zeroed": np.zeros_like,
    "rolled": lambda values: np.roll(values, 1, axis=-1),
    "one value": negate_largest,
}


@dataclasses.dataclass(frozen=True)
class Files:
    """A model, its exported file, and the graph of a new export from other samples.

    `expected` has the outputs of the model for the test data, by number of timesteps.
    """

    model: keras.Model
    path: pathlib.Path
    quantize: str | None
    is_step: bool
    new: TFLiteGraph
    expected: dict[int, Arrays]


def plant(path: pathlib.Path, name: str, defect: Callable[[Array], Array]) -> bytes | None:
    """Return a TFLite file with a defect in one constant; None if the defect changes no value.

    Args:
        path: a .tflite file.
        name: name of the constant.
        defect: function from the values of the constant to wrong values.
    """
    with parse_tflite(path) as (_, model):
        names = {t.name.decode(): t for graph in model.subgraphs for t in graph.tensors}
        tensor = names[name]
        dtype = next(c.dtype for c in read_graph(path).constants if c.name == name)
        buffer = model.buffers[tensor.buffer]
        stored = np.frombuffer(bytes(buffer.data), dtype).reshape(tensor.shape)
        # The defects are linear, so they can be applied to integers without the scale.
        zero = 0 if np.dtype(dtype).kind == "f" else tensor.quantization.zeroPoint[0]
        wrong = defect(stored.astype("float64") - zero) + zero
        wrong = (wrong if np.dtype(dtype).kind == "f" else np.rint(wrong)).astype(dtype)
        if np.array_equal(wrong, stored):
            return None
        buffer.data = np.frombuffer(wrong.tobytes(), "uint8")
        builder = flatbuffers.Builder(len(wrong.tobytes()))
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def planted(path: pathlib.Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield (constant, defect, wrong file) for each constant of real numbers and each defect."""
    for constant in read_graph(path).constants:
        if constant.values.size > 1 and np.any(constant.rounding):
            for name, defect in DEFECTS.items():
                content = plant(path, constant.name, defect)
                if content is not None:
                    yield constant.name, name, content


def has_wrong_constants(files: Files, path: pathlib.Path) -> bool:
    """Return whether the check finds wrong constants in a file."""
    found = find_differences(files.model, read_graph(path), files.new)
    return not isinstance(found, str) and Constants().judge(found).status == "fail"


def tolerance(quantize: str | None, expected: Arrays) -> Tolerance:
    """Return the tolerance of the check for the outputs of a file."""
    if quantize in EIGHT_BITS:
        return useful_tolerance(spreads(expected))
    scales = {name: float(np.abs(y).max()) for name, y in expected.items()}
    return Expected((), quantize or "float32", 2, max(LENGTHS), scales).tolerance()


def outputs_pass(files: Files, x: Array, run: TFLiteRunner) -> bool:
    """Return whether the outputs of a file are within the tolerance of the check."""
    for length, expected in files.expected.items():
        inputs = {"rows": x[:, :length]}
        actual = Step(files.model).over_time(run, inputs) if files.is_step else run(inputs)
        allowed = tolerance(files.quantize, expected)
        if not all(map(allowed.judge, measure(expected, actual, allowed.rtol))):
            return False
    return True


def train() -> Iterator[tuple[keras.Model, keras.Model]]:
    """Yield trained classifiers, each for sequences of any length and unrolled."""
    x, _, y, _ = digits.load()
    layers: list[Callable[[bool], keras.layers.Layer]] = [
        lambda unroll: keras_norm.LayerNormLSTM(UNITS, unroll=unroll),
        lambda unroll: keras_norm.BatchNormGRU(UNITS, max_timesteps=8, unroll=unroll),
    ]
    for layer in layers:
        keras.utils.set_random_seed(0)
        models = []
        for unroll in (False, True):
            rows = keras.Input((8 if unroll else None, 8), name="rows")
            h = layer(unroll)(rows)
            models.append(keras.Model(rows, keras.layers.Dense(10, "softmax", name="digit")(h)))
        model, unrolled = models
        model.compile(keras.optimizers.Adam(5e-3), "sparse_categorical_crossentropy")
        model.fit(x, y, 64, EPOCHS, verbose=0)
        unrolled.set_weights(model.get_weights())
        yield model, unrolled


def export(
    models: list[tuple[keras.Model, keras.Model]], quantize: str | None, folder: pathlib.Path
) -> Iterator[Files]:
    """Export a step of the first model, and whole sequences of the second model."""
    x, x_test, *_ = digits.load()
    for is_step, (model, unrolled) in zip((True, False), models, strict=True):
        exported = unrolled if not is_step and quantize in ("int8", "int16x8") else model
        options = {"signature": STEP} if is_step else {"step": False}
        path, new = (
            export_tflite(
                exported,
                folder / f"{quantize} {is_step} {start}.tflite",
                quantize=quantize,
                samples=x[start : start + SAMPLES],
                golden_cases=False,
                **options,
            )
            for start in (0, SAMPLES)
        )
        lengths = LENGTHS if exported.inputs[0].shape[1] is None else LENGTHS[-1:]
        expected = {n: {"digit": exported.predict(x_test[:TESTED, :n], verbose=0)} for n in lengths}
        yield Files(exported, path, quantize, is_step, read_graph(new), expected)


def main() -> None:
    """Print the table."""
    x = digits.load()[1][:TESTED]
    print("| precision | defects | by outputs | by outputs and constants | right files |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name, quiet_native_logs():
        folder, models = pathlib.Path(name), list(train())
        for quantize in PRECISIONS:
            found = [
                (by_outputs, by_constants, is_planted)
                for files in export(models, quantize, folder)
                for by_outputs, by_constants, is_planted in find_defects(files, x, folder)
            ]
            wrong = [(o, o or c) for o, c, is_planted in found if is_planted]
            right = [not o and not c for o, c, is_planted in found if not is_planted]
            shares = [f"{np.mean(column):.0%}" for column in zip(*wrong, strict=True)]
            cells = [quantize or "float32", str(len(wrong)), *shares]
            print(f"| {' | '.join(cells)} | {sum(right)} of {len(right)} pass |", flush=True)


def find_defects(files: Files, x: Array, folder: pathlib.Path) -> Iterator[tuple[bool, bool, bool]]:
    """Yield (wrong outputs, wrong constants, whether it has a defect) for the right file and more.

    Args:
        files: the right file.
        x: sequences of the test data.
        folder: folder for the wrong files.
    """
    path, worker = folder / "wrong.tflite", None
    for content in (files.path.read_bytes(), *(wrong for _, _, wrong in planted(files.path))):
        path.write_bytes(content)
        by_constants = files.quantize is not None and has_wrong_constants(files, path)
        try:
            # All files run in one process, whose start takes seconds.
            run = TFLiteRunner(path, STEP if files.is_step else SERVING_DEFAULT, worker=worker)
            worker, by_outputs = run.worker, not outputs_pass(files, x, run)
        except RunnerError:
            worker, by_outputs = None, True
        yield by_outputs, by_constants, content != files.path.read_bytes()
    if worker is not None:
        worker.close()


if __name__ == "__main__":
    main()
