"""Compare the constants of a quantized TFLite file with the constants of a new export."""

import pathlib
import tempfile

import keras
import numpy as np

from keras_norm.export.errors import ConversionError, one_line
from keras_norm.export.formats.artifact_format import ConstantDifference
from keras_norm.export.formats.refusals import name_layers
from keras_norm.export.formats.tflite.calibration import read_representative
from keras_norm.export.formats.tflite.conversion import convert_model, start_converter
from keras_norm.export.formats.tflite.tflite_file import read_tflite
from keras_norm.export.formats.tflite.tflite_graph import Constant, TFLiteGraph, read_graph
from keras_norm.export.model.single_step import Step
from keras_norm.export.signature import STEP
from keras_norm.typing import Arrays

OTHER_CONSTANTS = (
    "a new export of the model has other constants or operations than the file: another version of "
    "keras_norm or TensorFlow, or another exporter, wrote the file"
)


def compare_with_new_export(
    model: keras.Model, path: pathlib.Path, samples: Arrays
) -> list[ConstantDifference] | str:
    """Export a model again; compare each constant with the same constant of a quantized file.

    The new export takes the scales of its activations from the samples. These scales change a
    constant by rounding only. Returns the differences; or the reason why the constants cannot be
    compared.
    """
    file = read_tflite(path)
    with tempfile.TemporaryDirectory() as folder, start_converter() as converter:
        new = pathlib.Path(folder, "model.tflite")
        try:
            representative = read_representative(model, file.quantize, samples)
            convert_model(
                model,
                new,
                converter,
                quantize=file.quantize,
                step=Step(model, center_kernels=True) if STEP in file.signatures else None,
                step_only=file.is_single_step,
                samples=representative,
            )
        except (ConversionError, ValueError) as error:
            return f"the model cannot be exported again: {one_line(error)}"
        return find_differences(model, read_graph(path), read_graph(new))


def find_differences(
    model: keras.Model, file: TFLiteGraph, new: TFLiteGraph
) -> list[ConstantDifference] | str:
    """Compare each constant of a file with the same constant of a new export of the model."""
    if not file.is_comparable(new):
        return OTHER_CONSTANTS
    pairs = zip(file.constants, new.constants, strict=True)
    return [_compare(model, actual, expected) for actual, expected in pairs if expected.values.size]


def _compare(model: keras.Model, actual: Constant, expected: Constant) -> ConstantDifference:
    """Compare two constants at the index where |difference| - rounding error is largest."""
    difference = np.abs(actual.values - expected.values)
    rounding = np.broadcast_to(actual.rounding + expected.rounding, difference.shape)
    worst = np.unravel_index((difference - rounding).argmax(), difference.shape)
    return ConstantDifference(
        expected.name,
        name_layers(model, [expected.name]),
        float(difference[worst]),
        float(rounding[worst]),
    )
