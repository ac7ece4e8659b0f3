"""Wrong constants in quantized files: defects that the error of the outputs hides."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from experiments.planted_defects import DEFECTS, plant, planted
from keras_norm.export import export_tflite
from keras_norm.export.checks.properties.constants import Constants
from keras_norm.export.formats.tflite import constant_differences, quantization_error
from keras_norm.export.formats.tflite.constant_differences import (
    compare_with_new_export,
    find_differences,
)
from keras_norm.export.formats.tflite.tflite_file import read_tflite
from keras_norm.export.formats.tflite.tflite_graph import input_ranges, read_graph
from tests.export import models

X = np.random.default_rng(0).normal(size=(60, 5, 8)).astype("float32")


@pytest.fixture(scope="module")
def model():
    """A step with a matrix of more than 1,024 weights, which "dynamic" stores in 8 bits."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, 8), name="x")
    hidden = keras_norm.LayerNormSimpleRNN(40, name="hidden")(inputs)
    return keras.Model(inputs, keras.layers.Dense(3, name="y")(hidden))


@pytest.fixture(scope="module")
def export(model, tmp_path_factory):
    """Return a function from `quantize` and a first sample to a file."""

    @functools.cache
    def export(quantize, first):
        path = tmp_path_factory.mktemp("files") / "step.tflite"
        samples = X[first : first + 30]
        return export_tflite(model, path, signature="step", quantize=quantize, samples=samples)

    return export


@pytest.mark.parametrize("quantize", ["float16", "dynamic", "int8", "int16x8"])
def test_a_wrong_constant_is_told_from_rounding(model, export, tmp_path, quantize):
    path, new = (export(quantize, first) for first in (0, 30))
    assert read_tflite(path).quantize == quantize

    def status(path):
        found = find_differences(model, read_graph(path), read_graph(new))
        return Constants().judge(found, None).status

    assert status(path) == "pass"
    wrong = tmp_path / "wrong.tflite"
    tested = set()
    for constant, defect, content in planted(path):
        wrong.write_bytes(content)
        assert status(wrong) == "fail", (constant, defect)
        tested.add(defect)
    assert tested == DEFECTS.keys()


@pytest.mark.skipif(tf.__version__ < "2.20", reason="the converter does not name the layer")
def test_the_layer_of_a_wrong_constant_is_named(model, export, tmp_path):
    path, wrong = export("int8", 0), tmp_path / "wrong.tflite"
    name = next(c.name for c in read_graph(path).constants if c.values.shape == (40, 40))
    wrong.write_bytes(plant(path, name, DEFECTS["scaled"]))
    result = Constants().judge(compare_with_new_export(model, wrong, {"x": X[:8]}), None)
    assert result.detail.startswith(
        f'constant {name!r} of layer "hidden" (LayerNormSimpleRNN) differs from a new export by 0.'
    )


def test_the_constants_of_another_graph_are_not_compared(model, export, step_only):
    _, path = step_only
    found = find_differences(model, read_graph(export("float16", 0)), read_graph(path))
    assert found == constant_differences.OTHER_CONSTANTS


def test_the_reason_why_a_model_cannot_be_exported_again_is_returned(export):
    found = compare_with_new_export(models.dense(), export("int8", 0), {"x": X[:8]})
    assert found.startswith("the model cannot be exported again: Input 'x' takes arrays")


def test_files_with_another_share_of_operations_in_float32_are_compared(model, export, monkeypatch):
    """The exporter writes operations in float32 if the error of integers is large."""
    monkeypatch.setattr(quantization_error, "COSTLY", 0.0)
    file, products = read_graph(export("int8", 0)), read_graph(export("int8", 20))
    assert file.operations != products.operations
    assert Constants().judge(find_differences(model, file, products), None).status == "pass"


def test_the_range_of_an_input_comes_from_the_samples(export):
    low, high = input_ranges(export("int8", 0))["x"]
    assert (low, high) == pytest.approx((X[:30].min(), X[:30].max()), abs=0.05)
    assert input_ranges(export("float16", 0)) == {}
