import numpy as np
import pytest

from keras_norm.export.errors import VerificationError
from keras_norm.export.model.judge import judge_for_export
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.reference_runner import TrainedRunner, reference_runner
from keras_norm.export.model.rounding import rounding_errors
from tests.export.model.trained_elsewhere import trained_on_jax, with_other_layer

X = np.random.default_rng(0).normal(size=(3, 5, 3)).astype("float32")


def test_a_model_of_tensorflow_runs_here():
    assert isinstance(reference_runner(with_other_layer(1.0)), KerasRunner)


def test_a_model_of_another_backend_runs_on_that_backend():
    other = with_other_layer(2.0)
    run = reference_runner(trained_on_jax(with_other_layer(1.0), other))
    np.testing.assert_allclose(run({"x": X})["y"], KerasRunner(other)({"x": X})["y"], atol=1e-5)
    assert run.seconds() > 0.0


def test_the_first_layer_outside_the_tolerance_is_found():
    run = TrainedRunner(trained_on_jax(with_other_layer(1.0), with_other_layer(1.1)))
    assert run.find_other_layer({"x": X}, 1e-5) == "factor"
    assert run.find_other_layer({"x": X}, 0.5) is None


def test_an_export_names_the_layer_that_differs_on_tensorflow():
    model = trained_on_jax(with_other_layer(1.0), with_other_layer(1.1))
    message = "layer 'factor' computes other outputs on TensorFlow than on jax"
    with pytest.raises(VerificationError, match=message):
        judge_for_export(model).verify(KerasRunner(model), "the SavedModel")


def test_a_difference_between_backends_is_no_rounding_error():
    model = trained_on_jax(with_other_layer(1.0), with_other_layer(1.1))
    expected = reference_runner(model)({"x": X})
    assert rounding_errors(model, {"x": X}, expected)["y"] < 1e-5
