"""Measure the recurrent layers beside Keras' layers, with and without cuDNN, on a GPU.

`make bench-gpu` measures on TensorFlow and on JAX. Without `make`, and with one backend:

    KERAS_BACKEND=jax python -m benchmarks.gpu measure --minutes 3
    python -m benchmarks.gpu table

JAX needs no TensorFlow. `measure` writes benchmarks/results_gpu_BACKEND.json, and `table` prints
the table of docs/guides/benchmarks.md from these files. Without a GPU the CPU is measured.
"""

import argparse
import dataclasses
import importlib
import importlib.metadata
import itertools
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from benchmarks import backends, report, results, settings
from benchmarks.recurrent_layers import recurrent_layer
from benchmarks.results import Measurement, Results
from benchmarks.settings import INFERENCE, TRAINING, Shape
from benchmarks.tables import Row, Table
from benchmarks.timing import Variant, geometric_mean, measure

ROUNDS = 5
MINUTES = 3.5  # for one backend; the shape that is measured then ends first
LARGE = (Shape(256, 128, 512, 1024), Shape(128, 512, 256, 512))
SHAPES = (*backends.SHAPES, *LARGE)
DTYPES = ("float32", "mixed_float16")
# Layers, each with the Keras layer that it is compared with.
COMPARED = {
    settings.LN_LSTM: settings.KERAS_LSTM,
    settings.JOINT_LSTM: settings.KERAS_LSTM,
    settings.BN_LSTM: settings.KERAS_LSTM,
    settings.NO_NORM: settings.KERAS_LSTM,
    settings.KERAS_NO_CUDNN: settings.KERAS_LSTM,
    settings.RNN_CELL: settings.KERAS_LSTM,
    settings.LN_GRU: settings.KERAS_GRU,
}
FILES = {
    name: pathlib.Path(f"benchmarks/results_gpu_{name}.json") for name in ("tensorflow", "jax")
}
NOTE = (
    "Warm steps: time divided by the time of keras.layers.LSTM with cuDNN (LN-GRU: of "
    "keras.layers.GRU), as the geometric mean over the shapes, and the worst in parentheses. "
    "A training step computes the gradients of the weights and of the inputs. First: median "
    "seconds of the first training step. RNN(cell): keras.layers.RNN with an LSTM cell of three "
    "LayerNormalization. Shapes (B, T, D, H): "
    f"{', '.join(str(tuple(shape)) for shape in backends.SHAPES)}. "
    f"Large: {', '.join(str(tuple(shape)) for shape in LARGE)}."
)


def measure_backend(
    shapes: Sequence[Shape] = SHAPES, rounds: int = ROUNDS, minutes: float = MINUTES
) -> Results:
    """Measure the layers on the backend of Keras, until the time is over.

    Args:
        shapes: sizes to measure, in this order.
        rounds: minimum number of rounds at each shape.
        minutes: time after which no other shape begins.
    """
    backend = keras.backend.backend()
    found = results.begin({"rounds": rounds, "backend": backend})
    found.machine[backend] = importlib.metadata.version(backend)
    if not any("gpu" in device.lower() for device in keras.distribution.list_devices()):
        print("Keras found no GPU; the times are those of the CPU.")
        found.machine.pop("gpu", None)
    return found.with_suite("gpu", _measurements(shapes, rounds, time.monotonic() + 60 * minutes))


def _measurements(shapes: Sequence[Shape], rounds: int, deadline: float) -> Iterator[Measurement]:
    for shape, dtype, mode in itertools.product(shapes, DTYPES, (TRAINING, INFERENCE)):
        if time.monotonic() > deadline:
            print(f"unmeasured, because the time is over: {dtype}, {tuple(shape)}, {mode}")
            continue
        start = time.monotonic()
        variants, first = _first_calls(mode, shape, dtype, deadline)
        timings = dataclasses.replace(measure(variants, rounds), first=first)
        print(f"{dtype}, {tuple(shape)}, {mode}: {time.monotonic() - start:.0f} s", flush=True)
        yield Measurement.of("gpu", f"{dtype}, {mode}", shape, timings)
        keras.backend.clear_session()


def _first_calls(
    mode: str, shape: Shape, dtype: str, deadline: float
) -> tuple[dict[str, Variant], dict[str, float]]:
    """Return a variant for each layer, and the seconds of its first call.

    A layer that cannot run must not end a benchmark on a lent machine: its error is printed. The
    first calls of a shape take most of its time, so no other layer begins after the deadline.
    """
    variants, first = {}, {}
    for name in dict.fromkeys((*COMPARED.values(), *COMPARED)):
        if variants and time.monotonic() > deadline:
            print(f"{name}, because the time is over: {dtype}, {tuple(shape)}, {mode}")
            continue
        try:
            run = step(name, shape, mode, dtype)
            start = time.perf_counter()
            run()
        except Exception as error:
            print(f"{name} cannot run: {dtype}, {tuple(shape)}, {mode}: {error}")
        else:
            first[name] = time.perf_counter() - start
            variants[name] = Variant(run)
    return variants, first


def step(name: str, shape: Shape, mode: str, dtype: str) -> Callable[[], object]:
    """Return a function that runs one step of a layer and waits for the result.

    Args:
        name: name of the layer.
        shape: sizes of its inputs and its units.
        mode: "training" computes the gradients of the weights and of the inputs.
        dtype: dtype policy of the layer.
    """
    if keras.backend.backend() == "tensorflow":
        models: Any = importlib.import_module("benchmarks.models")
        x = models.normal(shape.batch, shape.time, shape.inputs)
        found: Callable[[], object] = models.layer_step(
            recurrent_layer(name, shape, dtype=dtype), x, mode
        )
        return found
    make = backends.training_step if mode == TRAINING else backends.inference_step
    return make(name, shape, dtype=dtype)


def table(found: Sequence[Results]) -> Table:
    """Create the table of all backends, with a group of rows for each backend and dtype."""
    rows: list[Row] = []
    for result in found:
        for dtype in DTYPES:
            rows.append((f"{result.settings['backend']}, {dtype}",))
            rows.extend(_row(result, dtype, name) for name in COMPARED)
    columns = ("", TRAINING, "large", INFERENCE, "large", "first, s")
    return Table("Layers on a GPU", columns, tuple(rows), NOTE)


def _row(found: Results, dtype: str, name: str) -> Row:
    cells = []
    for mode in (TRAINING, INFERENCE):
        measured = found.of("gpu", f"{dtype}, {mode}")
        for is_large in (False, True):
            spreads = [
                m.ratio(name, (COMPARED[name],)) for m in measured if (m.shape in LARGE) == is_large
            ]
            ratios = [spread.median for spread in spreads if spread is not None]
            cells.append(
                f"{geometric_mean(ratios):.2f} ({max(ratios):.2f})" if ratios else "unmeasured"
            )
    trained = found.of("gpu", f"{dtype}, {TRAINING}")
    first = [m.first[name] for m in trained if name in m.first]
    return (name, *cells, f"{np.median(first):.1f}" if first else "unmeasured")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure one backend, or print the table of the backends that were measured."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0]
    )
    commands = parser.add_subparsers(required=True, dest="command")
    measuring = commands.add_parser("measure", help="measure the backend of KERAS_BACKEND")
    measuring.add_argument("--minutes", type=float, default=MINUTES, help="default %(default)s")
    commands.add_parser("table", help="print the table of the measured backends")
    args = parser.parse_args(argv)
    if args.command == "measure":
        found = measure_backend(minutes=args.minutes)
        found.save(FILES[found.settings["backend"]])
        return
    measured = [Results.load(path) for path in FILES.values() if path.exists()]
    for found in measured:
        backend = found.settings["backend"]
        print(f"{backend} {found.machine[backend]}: {results.describe(found.machine)}")
    print(report.markdown_rows(table(measured)), NOTE, sep="\n\n")


if __name__ == "__main__":
    main()
