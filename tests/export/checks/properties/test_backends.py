"""The property "backends": the model computes equal outputs on TensorFlow and where it trained."""

import numpy as np

from keras_norm.export import check
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export.model.trained_elsewhere import trained_on_jax, with_other_layer

X = np.random.default_rng(0).normal(size=(9, 6, 3)).astype("float32")
SIZES = {"batch_sizes": [3], "lengths": [6]}


def test_a_model_trained_on_tensorflow_has_no_such_property():
    model = with_other_layer(1.0)
    report = check(model, KerasRunner(model), X, **SIZES)
    assert report.keras.property("backends") is None


def test_equal_outputs_on_both_backends_pass():
    model = trained_on_jax(with_other_layer(1.0))
    report = check(model, KerasRunner(model), X, **SIZES)
    assert report
    assert report.keras.property("backends").detail == "equal outputs on TensorFlow and on jax"


def test_other_outputs_on_tensorflow_fail_and_the_only_advice_is_about_the_layer():
    """The artifact equals the model on TensorFlow, but not the model on JAX."""
    model = with_other_layer(1.0)
    report = check(trained_on_jax(model, with_other_layer(1.1)), KerasRunner(model), X, **SIZES)
    assert not any(result.passed for result in (report, *report.artifacts))
    found = report.keras.property("backends")
    assert found.status == "fail"
    assert "TensorFlow differs from jax: the first layer that differs is 'factor'" in found.detail
    (finding,) = [f for f in report.findings if f.subject != "gap"]
    assert finding.subject == "Keras model"
    assert finding.advice.startswith("Write the layer with keras.ops")
