"""Exporters apply the tolerance of `check`."""

import logging

import keras
import numpy as np
import pytest

from keras_norm.export import VerificationError, export_saved_model, export_tflite
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.model.expected_outputs import expected_for_check, expected_for_export
from keras_norm.export.model.reference import make_reference
from keras_norm.export.signature import input_specs
from keras_norm_verify import verify
from tests.export import models


def chaotic():
    """A recurrence that magnifies any difference at every timestep."""
    layer = keras.layers.SimpleRNN(64, return_sequences=True, name="wild")
    model = keras.Sequential([keras.Input((None, 3), name="x"), layer])
    kernel, recurrent, bias = layer.get_weights()
    layer.set_weights([kernel, 4.0 * recurrent, bias])
    return model


@pytest.mark.parametrize("length", [6, 300])
def test_exports_and_checks_have_one_tolerance(length):
    model = models.recurrent()
    x = np.random.default_rng(0).normal(size=(3, length, 3)).astype("float32")
    few = expected_for_export(model, x)
    samples = read_samples(input_specs(model), x)
    many = expected_for_check(model, samples, lengths=[length]).tolerance()
    own = few.file_tolerance(few.cases[1])
    assert (own.rtol, own.atol) == (many.rtol, pytest.approx(many.atol))


def tolerance(reference, k=1, quantize=None):
    return reference.expected.file_tolerance(reference.expected.cases[k], quantize)


def first_failure(reference, share, quantize=None):
    case = reference.expected.cases[1]
    return reference.first_failure(case, off_by(reference, share), quantize)


def off_by(reference, share):
    """Outputs with an error in every value, of this share of the largest output."""
    rng = np.random.default_rng(1)
    return {
        name: y + share * np.abs(y).max() * rng.choice([-1.0, 1.0], y.shape)
        for name, y in reference.expected.cases[1].outputs.items()
    }


@pytest.fixture(scope="module")
def wild():
    x = np.random.default_rng(0).normal(size=(3, 90, 3)).astype("float32")
    return chaotic(), x


def test_a_difference_as_large_as_the_one_of_float64_is_accepted(wild, caplog):
    reference = make_reference(*wild)
    narrow = tolerance(reference).atol["wild"]
    with caplog.at_level(logging.WARNING, "keras_norm.export"):
        assert first_failure(reference, 0.04) is None
    assert "magnifies rounding errors: for batch 3, length 90, output 'wild'" in caplog.text
    assert tolerance(reference).atol["wild"] > 0.04 > narrow
    assert tolerance(reference, 0).atol["wild"] == narrow


def test_a_difference_above_a_twentieth_of_the_output_is_not_accepted(wild, caplog):
    reference = make_reference(*wild)
    narrow = tolerance(reference).atol["wild"]
    assert first_failure(reference, 0.06).output == "wild"
    assert tolerance(reference).atol["wild"] == narrow
    assert not caplog.text


def test_a_difference_that_rounding_does_not_explain_fails(caplog):
    reference = make_reference(models.dense())
    assert first_failure(reference, 1e-3) is not None
    assert not caplog.text


def test_a_float16_file_gets_no_wider_tolerance(wild):
    reference = make_reference(*wild)
    wide = tolerance(reference, quantize="float16").atol["wild"]
    assert first_failure(reference, 0.04, "float16") is not None
    assert first_failure(reference, 0.04) is None
    assert tolerance(reference, quantize="float16").atol["wild"] == wide


@pytest.mark.parametrize("quantize", [None, "float16"])
def test_exporters_write_a_chaotic_model_or_name_the_reason(wild, quantize, tmp_path, caplog):
    model, x = wild
    path = tmp_path / "wild.tflite"
    if quantize is None:
        options = {"samples": x[:, :20], "step": False}
        assert verify(export_tflite(model, path, **options)) == []
        assert verify(export_saved_model(model, tmp_path / "wild", **options)) == []
        assert "magnifies rounding" in caplog.text
    else:
        with pytest.raises(VerificationError, match="magnifies rounding errors; "):
            export_tflite(model, path, samples=x[:, :20], step=False, quantize=quantize)


@pytest.mark.parametrize(("data", "named"), [(None, True), (np.ones((4, 3)), False)])
def test_an_error_on_random_inputs_of_a_float16_file_names_samples(data, named):
    reference = make_reference(models.dense(), data)
    with pytest.raises(VerificationError) as raised:
        reference.verify(lambda x: {"y": np.full((len(x["x"]), 2), 9.0)}, "TFLite", "float16")
    assert str(raised.value).endswith("Give samples={input name: array}") == named


@pytest.mark.parametrize("quantize", ["dynamic", "int8", "int16x8"])
def test_outputs_of_8_bit_files_must_be_finite(quantize):
    reference = make_reference(models.dense())
    assert tolerance(reference, 0, quantize).atol == {"y": np.inf}
