"""Eight bits: the data that the scales come from, and whether what is left is of use."""

import pathlib
from typing import Any

import keras
import numpy as np

from keras_norm.export.comparing.cases import Samples, read_samples
from keras_norm.export.errors import VerificationError
from keras_norm.export.runners import KerasRunner, TFLiteRunner
from keras_norm.export.signature import input_specs

QUANTIZE = (None, "float16", "dynamic", "int8")
# Largest error, as a share of how much an output varies: classifiers of digits and of questions
# lost up to 3 points of accuracy below it, and from 11 to 26 beyond.
USEFUL = 0.25
BATCH = 32


def read_representative(model: keras.Model, quantize: str | None, data: Any) -> Samples | None:
    """Validate representative data.

    Args:
        model: a functional or a built sequential model.
        quantize: one of `QUANTIZE`.
        data: arrays (samples, ...) by input name, or one array for a model with one input; or None.

    Raises:
        ValueError: "int8" comes without data, or data come with anything but "int8" and "dynamic",
            or are one sample; or as `read_samples`.
    """
    if data is None:
        if quantize == "int8":
            raise ValueError(
                'quantize="int8" takes the scale of every activation from data: give '
                "representative={input name: array}, a few hundred samples as they will come"
            )
        return None
    if quantize not in ("dynamic", "int8"):
        raise ValueError(
            'representative data serve quantize="int8" and "dynamic" only; '
            f"received quantize={quantize!r}"
        )
    samples = read_samples(input_specs(model), data)
    if samples.count < 2:
        raise ValueError(
            "The file is compared with the model over representative samples that differ: give a "
            "few hundred. Received 1."
        )
    return samples


def verify_useful(model: keras.Model, file: pathlib.Path, samples: Samples) -> None:
    """Run a quantised file on the representative data, and compare it with the model.

    ::

        sqrt(mean((y' - y)^2)) <= 1/4 sqrt(mean((y - mean over the samples of y)^2))

    for every output y of real numbers, y' that of the file.

    Args:
        model: the Keras model.
        file: its TFLite file.
        samples: representative data.

    Raises:
        VerificationError: an output of the file is further off.
        RunnerError: the file does not run.
    """
    expected: dict[str, list[np.ndarray]] = {}
    actual: dict[str, list[np.ndarray]] = {}
    run_model = KerasRunner(model)
    with TFLiteRunner(file) as run:
        size = samples.batch or BATCH
        arrays = whole_batches(samples, size)
        for start in range(0, samples.count, size):
            inputs = {name: array[start : start + size] for name, array in arrays.items()}
            for outputs, of in ((expected, run_model), (actual, run)):
                for name, array in of(inputs).items():
                    outputs.setdefault(name, []).append(array)
    for name, parts in expected.items():
        wanted = np.concatenate(parts)
        if wanted.dtype.kind != "f":
            continue
        error = _rms(np.concatenate(actual[name]) - wanted)
        spread = _rms(wanted - wanted.mean(axis=0))
        if not error <= USEFUL * spread:
            raise VerificationError(
                f'output "{name}" of the quantised file is off by {error:.3g} (root mean square) '
                f"on the representative data, over which it varies by {spread:.3g}: a file so far "
                "off is of no use. Scale the inputs alike, give data as they will come, or take "
                'quantize="float16"'
            )


def whole_batches(samples: Samples, size: int) -> dict[str, np.ndarray]:
    """The samples by input name, the first ones once more at the end, to fill the last batch."""
    rows = -(-samples.count // size) * size
    return samples.take([n % samples.count for n in range(rows)])


def _rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype="float64"))))
