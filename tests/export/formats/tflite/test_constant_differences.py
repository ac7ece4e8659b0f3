"""Wrong constants in quantized files: defects that the error of the outputs hides."""

import pytest
import tensorflow as tf

from experiments.planted_defects import DEFECTS, plant, planted
from keras_norm.export.checks.properties.constants import Constants
from keras_norm.export.formats.tflite import constant_differences
from keras_norm.export.formats.tflite.calibration import read_representative
from keras_norm.export.formats.tflite.constant_differences import (
    compare_with_new_export,
    find_differences,
)
from keras_norm.export.formats.tflite.conversion import convert_model
from keras_norm.export.formats.tflite.tflite_file import read_tflite
from keras_norm.export.formats.tflite.tflite_graph import input_ranges, read_graph
from keras_norm.export.model.single_step import Step
from tests.export import models


@pytest.fixture
def convert_again(reader, data, converter, tmp_path):
    """Return a function that converts the step of the reader with other samples."""

    def convert(quantize, rows=30, **options):
        options |= {"step": Step(reader, center_kernels=True), "step_only": True}
        samples = read_representative(reader, quantize, data[0][100 : 100 + rows])
        path = tmp_path / "new.tflite"
        convert_model(reader, path, converter, quantize=quantize, samples=samples, **options)
        return read_graph(path)

    return convert


def status(model, file, new):
    return Constants().judge(find_differences(model, file, new)).status


@pytest.mark.parametrize(
    "quantize",
    # A step in int16x8 with a wrong constant is also checked in test_quantization_error.py.
    ["float16", "dynamic", "int8", pytest.param("int16x8", marks=pytest.mark.slow)],
)
def test_a_wrong_constant_is_told_from_rounding(
    reader, quantized_step, convert_again, tmp_path, quantize
):
    path = quantized_step(quantize)
    assert read_tflite(path).quantize == quantize
    new = convert_again(quantize)
    assert status(reader, read_graph(path), new) == "pass"
    wrong = tmp_path / "wrong.tflite"
    tested = set()
    for constant, defect, content in planted(path):
        wrong.write_bytes(content)
        assert status(reader, read_graph(wrong), new) == "fail", (constant, defect)
        tested.add(defect)
    assert tested == DEFECTS.keys()


@pytest.mark.skipif(tf.__version__ < "2.20", reason="the converter does not name the layer")
def test_the_layer_of_a_wrong_constant_is_named(reader, data, quantized_step, tmp_path):
    path, wrong = quantized_step("int8"), tmp_path / "wrong.tflite"
    name = next(c.name for c in read_graph(path).constants if c.values.shape == (64, 64))
    wrong.write_bytes(plant(path, name, DEFECTS["scaled"]))
    result = Constants().judge(compare_with_new_export(reader, wrong, {"rows": data[0][:8]}))
    assert result.detail.startswith(
        f'constant {name!r} of layer "hidden" (LayerNormSimpleRNN) differs from a new export of '
        "the model by 0."
    )


def test_the_constants_of_another_graph_are_not_compared(reader, quantized_step, step_only):
    file, other = read_graph(quantized_step("float16")), read_graph(step_only[1])
    assert find_differences(reader, file, other) == constant_differences.OTHER_CONSTANTS


def test_the_reason_why_a_model_cannot_be_exported_again_is_returned(data, quantized_step):
    found = compare_with_new_export(models.dense(), quantized_step("int8"), {"x": data[0][:8]})
    assert found.startswith("the model cannot be exported again: Input 'x' takes arrays")


def test_files_with_another_share_of_operations_in_float32_are_compared(
    reader, quantized_step, convert_again, tmp_path
):
    """The exporter writes operations in float32 if the error of integers is large."""
    path = tmp_path / "products.tflite"
    convert_again("int8", products=path)
    file, products = read_graph(quantized_step("int8")), read_graph(path)
    assert file.operations != products.operations
    assert status(reader, file, products) == "pass"
    # The products of the second file compute in integers too.
    assert {c.dtype for c in products.constants if c.values.shape == (64, 64)} == {"int8"}


def test_the_range_of_an_input_comes_from_the_samples(data, quantized_step):
    low, high = input_ranges(quantized_step("int8"))["rows"]
    assert (low, high) == pytest.approx((data[0][:100].min(), data[0][:100].max()), abs=0.05)
    assert input_ranges(quantized_step("float16")) == {}
