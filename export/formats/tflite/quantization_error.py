"""Measure the error, size and time of a quantized TFLite file; raise an error or log a warning."""

import logging
import math
import pathlib
from collections.abc import Iterable

import keras
import numpy as np

from keras_norm.export.compare.output_differences import measure
from keras_norm.export.compare.quantization_tolerance import (
    COSTLY,
    USEFUL,
    spreads,
    useful_tolerance,
)
from keras_norm.export.compare.samples import Samples
from keras_norm.export.errors import VerificationError
from keras_norm.export.formats.refusals import name_layers
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.model.single_step import Step
from keras_norm.export.results.output_comparison import OutputComparison
from keras_norm.export.runtimes.runner import Runner
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm.typing import Arrays

logger = logging.getLogger("keras_norm.export")

# Batch size with which the file and the model run on the samples.
BATCH = 32
# Number of timed calls for the latency of a file.
CALLS = 20


def log_float32(model: keras.Model, operations: Iterable[tuple[str, str]]) -> None:
    """Log the layers that compute in float32 in a file that otherwise computes in integers.

    `operations` has (kind, name of its output tensor) of each operation in float32.
    """
    kinds: dict[str, set[str]] = {}
    for kind, tensor in operations:
        kinds.setdefault(name_layers(model, [tensor]), set()).add(kind)
    for layer, found in kinds.items():
        logger.info(
            "%s computes %s in float32, because LiteRT cannot compute them in integers. If the "
            "file must compute in integers only, write the layer with sums, products, means, "
            "maxima, rsqrt, exp, log, tanh, sigmoid, relu, gelu and softmax, or use a layer of "
            "keras_norm",
            layer,
            ", ".join(sorted(found)),
        )


def verify_useful(
    reference: Runner,
    file: pathlib.Path,
    quantize: str,
    samples: Samples,
    step: Step | None = None,
    products: pathlib.Path | None = None,
) -> None:
    """Compare a quantized file with the model on the samples, and warn about a large error.

    `reference` is the runner of the model. The tolerance is the rule in
    `keras_norm.export.compare.quantization_tolerance`. With `step` the samples stream through the
    file, as for `calibration_data`. In the file `products` only matrix products compute in
    integers. It replaces `file` if `file` has a large error, and the error of `products` is
    smaller.

    Raises:
        VerificationError: the error of an output exceeds the tolerance.
        ValueError: every output is equal for all samples.
        RunnerError: the file does not run.
    """
    expected = _run_all(reference, samples)
    if all(np.all(y == y[:1]) for y in expected.values()):
        raise ValueError(
            "the model returns equal outputs for all samples, so the error of the quantized file "
            "cannot be measured. Give samples like the model's inputs in production"
        )
    rule = useful_tolerance(spreads(expected))

    def compare(path: pathlib.Path) -> OutputComparison:
        """Compare each output of a file with the model's; return the worst comparison."""
        with TFLiteRunner(path, SERVING_DEFAULT if step is None else STEP) as run:
            actual = _run_all(run, samples, step)
        return max(map(rule.judge, measure(expected, actual, rule.rtol)), key=_error)

    worst = compare(file)
    if products is not None and _error(worst) > COSTLY:
        better = compare(products)
        if _error(better) < _error(worst):
            products.replace(file)
            logger.warning(
                "with all operations in integers the file has a large error: %s. In the written "
                "file only matrix products, convolutions and lookups compute in integers, and all "
                "other operations in float32",
                _describe_error(worst),
            )
            worst = better
    finer = f'quantize="{"int16x8" if quantize == "int8" else "float16"}"'
    if not worst:
        raise VerificationError(
            f"{_describe_error(worst)}. The error is larger than the limit: a quarter of the "
            "standard deviation of the Keras model's output. Scale all inputs to similar ranges, "
            f"give samples like the model's inputs in production, or choose {finer}"
        )
    if _error(worst) > COSTLY:
        logger.warning(
            "%s. The error is %.0f%% of this standard deviation. Measure the accuracy on labels, "
            "or choose %s",
            _describe_error(worst),
            100 * _error(worst),
            finer,
        )


def warn_of_cost(file: pathlib.Path, dynamic: pathlib.Path, quantize: str, inputs: Arrays) -> None:
    """Log a warning if the file in integers is larger or slower than with quantize="dynamic".

    `file` computes in integers: it repeats the operations of recurrent layers for each timestep.
    `dynamic` is a file of the same model with quantize="dynamic": its recurrent layers run in
    loops.
    """
    size, other_size = (path.stat().st_size for path in (file, dynamic))
    seconds, other_seconds = (_shortest_call(path, inputs) for path in (file, dynamic))
    worse = ["larger"] * (size > other_size) + ["slower"] * (seconds > other_seconds)
    if worse:
        logger.warning(
            'the file with quantize="%s" is %s than with quantize="dynamic" (%.0f kB, %.2g ms; '
            '"dynamic": %.0f kB, %.2g ms). A file in integers repeats the operations of recurrent '
            'layers for every timestep. Choose "dynamic" if the device can compute in float32',
            quantize,
            " and ".join(worse),
            size / 1e3,
            1e3 * seconds,
            other_size / 1e3,
            1e3 * other_seconds,
        )


def _shortest_call(path: pathlib.Path, inputs: Arrays) -> float:
    """Run a file `CALLS` times after a first run, and return the seconds of the fastest run."""
    seconds = []
    with TFLiteRunner(path) as run:
        for _ in range(1 + CALLS):
            run(inputs)
            seconds.append(run.seconds())
    return min(seconds[1:])


def _run_all(run: Runner, samples: Samples, step: Step | None = None) -> Arrays:
    """Run a model or a file on all samples, and return the outputs by name.

    With a `step` the samples run timestep by timestep.
    """
    parts = []
    for _, case in samples.batches(BATCH):
        inputs = case.inputs
        parts.append(run(inputs) if step is None else step.over_time(run, inputs))
    return {
        name: np.concatenate([part[name] for part in parts])[: samples.count] for name in parts[0]
    }


def _error(result: OutputComparison) -> float:
    """Divide the error of a file's output by the standard deviation of the Keras model's output."""
    if result.rms is None:
        return 0.0 if result else math.inf
    return USEFUL * (result.used or 0.0)


def _describe_error(result: OutputComparison) -> str:
    """Describe the measured error of an output, for a message."""
    if result.rms is None:
        problem = result.problem or (
            "more than a quarter of the output's integers differ from the Keras model's integers"
        )
        return f'output "{result.output}" of the quantized file: {problem}'
    return (
        f'output "{result.output}" of the quantized file has an error of {result.rms:.3g} (root '
        "mean square) on the samples; the output of the Keras model has a standard deviation of "
        f"{result.atol / USEFUL:.3g}"
    )
