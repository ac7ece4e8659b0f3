"""SavedModels with one defect each: `check` must fail, and name the defect."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import check, export_saved_model, signature
from keras_norm.export.model.keras_runner import KerasRunner

DATA = np.random.default_rng(0).normal(1.0, 2.0, size=(9, 4, 3)).astype("float32")


@pytest.fixture(scope="module")
def model():
    """A model without a recurrence, because recurrences are slow to trace.

    `model/test_single_step.py` checks true exports of recurrences.
    """
    inputs = keras.Input((None, 3), name="x")
    h = keras.layers.BatchNormalization(momentum=0.0, name="bn")(inputs)
    h = keras_norm.LayerNormalization()(h)
    model = keras.Model(inputs, keras.layers.Dense(2, name="y")(h))
    model(DATA, training=True)
    return model


def save(model, folder, serve):
    """Write a SavedModel whose outputs are serve(inputs)."""
    archive = keras.export.ExportArchive()
    archive.track(model)
    spec = {"x": tf.TensorSpec((None, None, 3), "float32", name="x")}
    archive.add_endpoint(
        "serving_default",
        lambda inputs: {name: tf.identity(y) for name, y in serve(inputs).items()},
        input_signature=[spec],
    )
    archive.write_out(str(folder), verbose=False)
    return folder


def check_quickly(model, files):
    """Check one batch size and one length, because each further shape takes a trace."""
    return check(model, files, DATA, batch_sizes=[3], lengths=[4])


def failed_by_runner(report):
    """Return the names of the failed checks in TensorFlow and in the C API."""
    by_subject = {}
    for failure in report.failures:
        by_subject.setdefault(failure.subject, set()).add(failure.check)
    return tuple(by_subject.values())


def failed(report):
    """Return the names of the failed checks, which must be equal for both runners."""
    first, second = failed_by_runner(report)
    assert first == second
    return first


@pytest.mark.usefixtures("unmeasured_rounding")
def test_a_wrong_weight_fails_the_values_only(model, tmp_path):
    wrong = keras.models.clone_model(model)
    weights = model.get_weights()
    weights[-1] = weights[-1] + np.array([0.0, 0.01], "float32")
    wrong.set_weights(weights)
    path = export_saved_model(wrong, tmp_path / "wrong", step=False)
    report = check_quickly(model, [path])
    assert failed(report) == {"values"}
    assert "unit 1" in report.failures[0].detail
    assert {result.first_difference.layer for result in report.artifacts} == {"y"}
    (finding,) = (f for f in report.findings if f.subject == "wrong")
    assert finding.advice.startswith("Export the model again")


@pytest.mark.usefixtures("unexplained")
def test_a_saved_model_that_mixes_rows_fails_row_independence(model, tmp_path):
    def serve(inputs):
        (y,) = signature.call(model, inputs).values()
        return {"y": y - tf.reduce_mean(y, axis=0)}

    report = check_quickly(model, [save(model, tmp_path / "leaky", serve)])
    assert failed(report) == {"values", "row independence"}


@pytest.mark.usefixtures("unmeasured_rounding")
def test_a_batch_norm_in_training_mode_fails_row_independence_and_weights(model, tmp_path):
    def serve(inputs):
        return signature.call(model, inputs, training=True)

    before = model.get_weights()
    report = check_quickly(model, [save(model, tmp_path / "training", serve)])
    tensorflow, c_api = failed_by_runner(report)
    assert {"values", "row independence"} <= c_api
    assert {"values", "row independence", "weights"} <= tensorflow  # the C API shows no variables
    assert {result.first_difference.layer for result in report.artifacts} == {"bn"}
    assert any("inference changed" in f.detail and "moving" in f.detail for f in report.failures)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.usefixtures("unexplained")
@pytest.mark.parametrize("size", [1e-6, 1e4], ids=["tiny outputs", "large outputs"])
def test_the_tolerance_follows_the_size_of_the_outputs(size):
    def scaled(seed):
        keras.utils.set_random_seed(seed)
        inputs = keras.Input((None, 3), name="x")
        h = keras.layers.Dense(4, "tanh")(inputs)
        return keras.Model(inputs, keras.layers.Rescaling(size, name="y")(h))

    right, other = scaled(0), scaled(1)
    file = KerasRunner(right)
    assert check_quickly(right, file)
    assert "values" in {failure.check for failure in check_quickly(other, file).failures}
