"""Eight bits: the data that the scales come from, and whether what is left is of use."""

import logging
import math
import pathlib
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export.compare.input_cases import Samples, read_samples
from keras_norm.export.compare.output_differences import measure
from keras_norm.export.compare.quantization_tolerance import (
    COSTLY,
    EIGHT_BITS,
    USEFUL,
    spreads,
    useful,
)
from keras_norm.export.errors import VerificationError, one_line
from keras_norm.export.formats.converter_process import layers_of
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.single_step import Step
from keras_norm.export.model.step_signature import traced
from keras_norm.export.results.output_comparison import OutputComparison
from keras_norm.export.signature import SERVING_DEFAULT, STEP, input_specs

logger = logging.getLogger("keras_norm.export")

QUANTIZE = (None, "float16", *EIGHT_BITS)
# Those that compute in integers, whose scales come from data: the bits of an activation.
INTEGERS = {"int8": 8, "int16x8": 16}
BATCH = 32


def read_representative(model: keras.Model, quantize: str | None, data: Any) -> Samples | None:
    """The samples that represent what will come, for a file in eight bits; None for any other.

    Args:
        model: a functional or a built sequential model.
        quantize: one of `QUANTIZE`.
        data: arrays (samples, ...) by input name, or one array for a model with one input; or None.

    Raises:
        ValueError: one of `INTEGERS` comes without data, or the data are one sample; or as
            `read_samples`.
    """
    if data is None and quantize in INTEGERS:
        raise ValueError(
            f'quantize="{quantize}" takes the scale of every activation from data: give '
            "samples={input name: array}, a few hundred as they will come"
        )
    if data is None or quantize not in EIGHT_BITS:
        return None
    samples = read_samples(input_specs(model), data)
    if samples.count < 2:
        raise ValueError(
            "The file is compared with the model over samples that differ: give a "
            "few hundred. Received 1."
        )
    return samples


def calibration_data(
    samples: Samples, step: Step | None = None, quantize: str | None = None
) -> tuple[dict[str, np.ndarray], int]:
    """What the scales are measured on, by input name, and how much of it is one call.

    Args:
        samples: of `read_representative`.
        step: the model timestep by timestep, where the file is that alone: its inputs and states
            are then those that occur while the samples stream through it.
        quantize: how the file is quantized. For "int8" timesteps are left out that begin from a
            state of zeros, or have inputs of zeros alone (`_without_zeros`).
    """
    if step is None:
        size = samples.batch or 1
        return whole_batches(samples, size), size
    batch, run = samples.batch or 1, traced(step)
    met: list[dict[str, np.ndarray]] = []

    def recorded(inputs: dict[str, np.ndarray]) -> Any:
        met.append({name: np.asarray(array) for name, array in inputs.items()})
        return run(inputs)

    try:
        step.every_timestep(recorded, whole_batches(samples, batch))
    except tf.errors.OpError as error:  # an id beyond an embedding's, say
        raise ValueError(f"the model does not take the samples: {one_line(error)}") from error
    joined = {name: np.concatenate([inputs[name] for inputs in met]) for name in met[0]}
    return (_without_zeros(joined, batch) if quantize == "int8" else joined), batch


def _without_zeros(arrays: dict[str, np.ndarray], batch: int) -> dict[str, np.ndarray]:
    """The rows without an array of zeros alone; all rows where few are left.

    A norm of rows divides zeros by sqrt(epsilon), so multiplies them by 316. No scale need reach
    that far, as the products are zeros, and one of 8 bits that does has nothing left for all others
    (measured on digits: an LN-SimpleRNN was then off by 0.137, and is by 0.009; an LN-GRU by 0.017
    and 0.004).
    """
    numbers = [a.reshape(len(a), -1) for a in arrays.values() if a.dtype.kind == "f"]
    kept = np.flatnonzero(np.all([a.any(axis=1) for a in numbers], axis=0))
    kept = kept[: len(kept) // batch * batch]
    return {name: array[kept] for name, array in arrays.items()} if len(kept) else arrays


def log_float32(model: keras.Model, operations: Iterable[tuple[str, str]]) -> None:
    """Log which layers compute in float32 in a file of integers.

    Args:
        model: the model that was converted.
        operations: the kind of each such operation, and the name of what it writes.
    """
    kinds: dict[str, set[str]] = {}
    for kind, tensor in operations:
        kinds.setdefault(layers_of(model, [tensor]), set()).add(kind)
    for layer, found in kinds.items():
        logger.info(
            "%s computes %s in float32, as LiteRT does not in integers. Where all has to be "
            "integers, write it with sums, products, means, maxima, rsqrt, exp, log, tanh, "
            "sigmoid, relu, gelu and softmax, or take a layer of keras_norm",
            layer,
            ", ".join(sorted(found)),
        )


def verify_useful(
    model: keras.Model,
    file: pathlib.Path,
    quantize: str,
    samples: Samples,
    step: Step | None = None,
    products: pathlib.Path | None = None,
) -> None:
    """Run a quantized file on the samples, compare it with the model, and warn of a large error.

    The rule is that of `keras_norm.export.compare.quantization_tolerance`.

    Args:
        model: the Keras model.
        file: its TFLite file.
        quantize: one of `EIGHT_BITS`.
        samples: of `read_representative`.
        step: as for `calibration_data`: the samples are run through the file as streams.
        products: the same file with products of matrices alone in integers. It replaces `file`
            where that has a large error, and this has a smaller one.

    Raises:
        VerificationError: an output of the file is further off.
        ValueError: no output differs between samples.
        RunnerError: the file does not run.
    """
    wanted = _run_all(KerasRunner(model), samples)
    if all(np.all(y == y[:1]) for y in wanted.values()):
        raise ValueError(
            "The model gives the same for all samples, by which nothing can be compared: give "
            "samples as they will come"
        )
    rule = useful(spreads(wanted))

    def compare(path: pathlib.Path) -> OutputComparison:
        """The output with the largest error."""
        with TFLiteRunner(path, SERVING_DEFAULT if step is None else STEP) as run:
            received = _run_all(run, samples, step)
        return max((rule.judge(found) for found in measure(wanted, received, 0.0)), key=_error)

    worst = compare(file)
    if products is not None and _error(worst) > COSTLY:
        better = compare(products)
        if _error(better) < _error(worst):
            products.replace(file)
            logger.warning(
                "in integers throughout, %s. So products of matrices, convolutions and lookups "
                "alone are computed in integers, and all else in float32",
                _described(worst),
            )
            worst = better
    finer = f'quantize="{"int16x8" if quantize == "int8" else "float16"}"'
    if not worst:
        raise VerificationError(
            f"{_described(worst)}: a file so far off is of no use. Scale the inputs alike, give "
            f"data as they will come, or take {finer}"
        )
    if _error(worst) > COSTLY:
        logger.warning(
            "%s, so by %.0f%% of that. Measure what it costs on labels, or take %s",
            _described(worst),
            100 * _error(worst),
            finer,
        )


def _run_all(run: Any, samples: Samples, step: Step | None = None) -> dict[str, np.ndarray]:
    """The outputs for all samples, which stream through a `step`."""
    parts = []
    for _, case in samples.batches(BATCH):
        inputs = case.inputs
        parts.append(run(inputs) if step is None else step.over_time(run, inputs))
    return {
        name: np.concatenate([part[name] for part in parts])[: samples.count] for name in parts[0]
    }


def _error(result: OutputComparison) -> float:
    """The error of an output, as a share of how much it varies."""
    if result.rms is None:
        return 0.0 if result else math.inf
    return USEFUL * (result.used or 0.0)


def _described(result: OutputComparison) -> str:
    """What was measured of an output."""
    if result.rms is None:
        problem = result.problem or "more than a quarter of its integers are others"
        return f'output "{result.output}" of the quantized file: {problem}'
    return (
        f'output "{result.output}" of the quantized file is off by {result.rms:.3g} (root mean '
        f"square) on the samples, over which it varies by {result.atol / USEFUL:.3g}"
    )


def whole_batches(samples: Samples, size: int) -> dict[str, np.ndarray]:
    """The samples by input name, the first ones once more at the end, to fill the last batch."""
    rows = -(-samples.count // size) * size
    return samples.take(range(rows))
