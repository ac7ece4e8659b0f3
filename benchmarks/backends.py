"""Measure recurrent layers beside Keras' LSTM and GRU on the JAX or the PyTorch backend.

    KERAS_BACKEND=torch python -m benchmarks.backends

The program writes benchmarks/results_BACKEND.json and prints a table of docs/guides/benchmarks.md.
With `--layers` it measures some layers beside Keras'.
"""

import argparse
import importlib
import importlib.metadata
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from benchmarks import report, results
from benchmarks.recurrent_layers import recurrent_layer
from benchmarks.results import Measurement, Results
from benchmarks.settings import (
    BN_LSTM,
    COMPARED,
    KERAS_GRU,
    KERAS_LSTM,
    LN_GRU,
    LN_LSTM,
    NO_NORM,
    OPTIONS,
    PREDICT,
    REFERENCES,
    TRAINING,
    Shape,
)
from benchmarks.tables import Table
from benchmarks.timing import Variant, geometric_mean, measure

ROUNDS = 15
SHAPES = (
    Shape(48, 80, 40, 192),
    Shape(8, 200, 300, 320),
    Shape(100, 50, 16, 72),
    Shape(20, 40, 100, 96),
)
OURS = (LN_LSTM, LN_GRU, BN_LSTM, NO_NORM, *OPTIONS)
NOTE = (
    "Time divided by the time of the Keras layer on the same backend (GRUs: keras.layers.GRU), as "
    "the median of rounds that run all layers in turn. A training step computes the gradients of "
    "the weights and of the inputs. Inference is predict_on_batch, with the geometric mean over "
    "the shapes."
)


def measure_backend(rounds: int, layers: Sequence[str] = OURS) -> Results:
    """Measure layers, in training and by predict, at every shape."""
    backend = keras.backend.backend()
    found = results.begin({"rounds": rounds, "backend": backend})
    found.machine[backend] = importlib.metadata.version(backend)
    for step in (training_step, predict_step):
        step(KERAS_LSTM, Shape(2, 2, 2, 2))()  # the first call of a process sets the backend up
    return found.with_suite("backend", _measurements(rounds, layers))


def _measurements(rounds: int, layers: Sequence[str]) -> Iterator[Measurement]:
    for mode, step in ((TRAINING, training_step), (PREDICT, predict_step)):
        for shape in SHAPES:
            names = (*layers, KERAS_LSTM, KERAS_GRU)
            variants = {name: Variant(step(name, shape)) for name in names}
            yield Measurement.of("backend", mode, shape, measure(variants, rounds))
            keras.backend.clear_session()


def training_step(name: str, shape: Shape, **options: Any) -> Callable[[], object]:
    """Return a function that computes the gradients of the weights and of the inputs.

    Args:
        name: name of the layer.
        shape: sizes of its inputs and its units.
        **options: further arguments of the layer.
    """
    layer = recurrent_layer(name, shape, **options)
    layer.build((shape.batch, shape.time, shape.inputs))
    x = _normal(shape.batch, shape.time, shape.inputs)
    dy = _normal(*layer.compute_output_shape(x.shape)).astype(layer.compute_dtype)
    if keras.backend.backend() == "torch":
        torch: Any = importlib.import_module("torch")
        x, dy = torch.tensor(x, requires_grad=True), torch.tensor(dy)
        sources = [x, *(weight.value for weight in layer.trainable_weights)]
        return lambda: torch.autograd.grad(layer(x, training=True), sources, dy)
    jax: Any = importlib.import_module("jax")
    trainable, others = weights(layer)

    @jax.jit  # type: ignore[untyped-decorator]
    def gradients(trainable: Any, x: Any, dy: Any) -> Any:
        def outputs(trainable: Any, x: Any) -> Any:
            return layer.stateless_call(trainable, others, x, training=True)[0]

        return jax.vjp(outputs, trainable, x)[1](dy)

    x, dy = jax.device_put((x, dy))
    return lambda: jax.block_until_ready(gradients(trainable, x, dy))


def inference_step(name: str, shape: Shape, **options: Any) -> Callable[[], object]:
    """Return a function that computes the outputs, compiled by JAX.

    Args:
        name: name of the layer.
        shape: sizes of its inputs and its units.
        **options: further arguments of the layer.
    """
    layer = recurrent_layer(name, shape, **options)
    layer.build((shape.batch, shape.time, shape.inputs))
    jax: Any = importlib.import_module("jax")
    outputs = jax.jit(lambda *variables: layer.stateless_call(*variables, training=False)[0])
    arguments = (*weights(layer), jax.device_put(_normal(shape.batch, shape.time, shape.inputs)))
    return lambda: jax.block_until_ready(outputs(*arguments))


def weights(layer: keras.layers.Layer) -> tuple[list[Any], list[Any]]:
    """Return the values of the trainable and of the other variables of a layer."""
    variables = (layer.trainable_variables, layer.non_trainable_variables)
    trainable, others = ([variable.value for variable in group] for group in variables)
    return trainable, others


def predict_step(name: str, shape: Shape) -> Callable[[], object]:
    """Return a function that calls `predict_on_batch`."""
    inputs = keras.Input((shape.time, shape.inputs))
    model = keras.Model(inputs, recurrent_layer(name, shape)(inputs))
    x = _normal(shape.batch, shape.time, shape.inputs)
    return lambda: model.predict_on_batch(x)


def table(found: Results) -> Table:
    """Create the table of the ratios in training, with the mean ratio at inference."""

    def ratios(mode: str, name: str) -> list[float]:
        reference = COMPARED[OPTIONS.get(name, name)]
        return found.ratios("backend", mode, name, REFERENCES[reference])

    rows = tuple(
        (
            name,
            *(f"{ratio:.2f}" for ratio in ratios(TRAINING, name)),
            f"{geometric_mean(ratios(PREDICT, name)):.2f}",
        )
        for name in OURS
        if ratios(TRAINING, name)
    )
    columns = ("(B, T, D, H)", *(str(tuple(shape)) for shape in SHAPES), "inference, mean")
    return Table(f"Layers on {found.settings['backend']}", columns, rows, NOTE)


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backends")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="number of rounds")
    parser.add_argument("--layers", nargs="+", choices=OURS, default=OURS, help="default: all")
    parser.add_argument("--json", type=pathlib.Path, help="file to write, in place of that above")
    arguments = parser.parse_args()
    found = measure_backend(arguments.rounds, arguments.layers)
    backend = found.settings["backend"]
    found.save(arguments.json or pathlib.Path(f"benchmarks/results_{backend}.json"))
    machine = {**found.machine, "backend": f"{backend} {found.machine[backend]}"}
    print(results.describe(machine), machine["backend"], found.settings["date"], sep="; ")
    print(report.markdown_rows(table(found)), NOTE, sep="\n\n")
