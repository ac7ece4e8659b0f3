"""What exporters hold files to: the same as `check` does."""

import logging

import keras
import numpy as np
import pytest

from keras_norm.export import check, export_saved_model
from keras_norm.export.comparing.reference import make_reference
from keras_norm.export.comparing.verify import require_same
from keras_norm.export.errors import VerificationError
from tests.export import models


def chaotic():
    """A recurrence that makes more of whatever differs, at every step."""
    layer = keras.layers.SimpleRNN(64, return_sequences=True, name="wild")
    model = keras.Sequential([keras.Input((None, 3), name="x"), layer])
    kernel, recurrent, bias = layer.get_weights()
    layer.set_weights([kernel, 4.0 * recurrent, bias])
    return model


@pytest.mark.parametrize("length", [6, 300])
def test_the_tolerance_is_the_one_of_check(length, tmp_path):
    model = models.recurrent()
    x = np.random.default_rng(0).normal(size=(3, length, 3)).astype("float32")
    own = make_reference(model, x).tolerance(1)
    path = export_saved_model(model, tmp_path / "saved")
    for output in check(model, path, x, lengths=[length]).artifacts[0].outputs:
        (allowed, *_) = output.comparisons
        assert (own.rtol, own.atol[output.output]) == (allowed.rtol, pytest.approx(allowed.atol))


def test_a_chaotic_model_may_be_off_by_its_own_rounding(caplog):
    x = np.random.default_rng(0).normal(size=(3, 90, 3)).astype("float32")
    reference = make_reference(chaotic(), x)
    narrow = reference.tolerance(1).atol["wild"]
    noise = 100 * narrow * np.random.default_rng(1).normal(size=(3, 90, 64))
    with caplog.at_level(logging.WARNING, "keras_norm.export"):
        require_same(reference, 1, {"wild": reference.cases[1][1]["wild"] + noise}, "a file")
    assert reference.tolerance(1).atol["wild"] > 100 * narrow
    assert "magnifies rounding: at batch 3, length 90" in caplog.text


def test_no_other_model_may(caplog):
    reference = make_reference(models.recurrent())
    outputs = reference.cases[0][1]
    with pytest.raises(VerificationError, match="differs by up to"):
        require_same(reference, 0, {n: y + 1e-3 for n, y in outputs.items()}, "a file")
    assert not reference.widen(0)
    assert "rounding" not in caplog.text


@pytest.mark.parametrize("quantize", ["dynamic", "int8", "int16x8"])
def test_in_eight_bits_numbers_have_to_be_finite(quantize):
    reference = make_reference(models.dense())
    assert reference.tolerance(0, quantize).atol == {"y": np.inf}
