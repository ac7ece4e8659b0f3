"""The recurrence that training compiles, compared with the exported recurrence."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import check
from keras_norm.export.checks.model_clone import ModelClone
from keras_norm.export.checks.plan import make_plan
from keras_norm.export.checks.properties.compiled_recurrence import CompiledRecurrence
from keras_norm.export.checks.properties.property import NotApplicable, Tolerances
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.input_cases import read_samples
from keras_norm.export.compare.tolerance import TOLERANCES, Tolerance, default_share
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.signature import input_specs
from keras_norm.rnn.gradient import of_cell

DATA = np.random.default_rng(0).normal(size=(3, 6, 3)).astype("float32")


def model_of(*layers):
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((None, 3), name="x"), *layers])


def found(model):
    plan = make_plan(model, read_samples(input_specs(model), DATA))
    subject = Subject(None, plan, clone=ModelClone(model))
    known = CompiledRecurrence()
    measured = known.measure(subject)
    if isinstance(measured, NotApplicable):
        return known.not_applicable(measured.reason)
    tolerance = Tolerance(TOLERANCES["float32"], {})
    share = default_share("float32", plan.layers, plan.timesteps)
    return known.judge(measured, Tolerances(tolerance, tolerance, share))


@pytest.fixture
def off_by_a_hundredth(monkeypatch):
    run = of_cell.run

    def off(*arguments, **options):
        path, states, learned = run(*arguments, **options)
        return path, [state + 1e-2 for state in states], learned

    monkeypatch.setattr(of_cell, "run", off)


def test_layers_that_train_as_they_are_served_pass():
    gru = keras_norm.LayerNormGRU(4, recurrent_dropout=0.5, name="gru")
    rnn = keras_norm.LayerNormSimpleRNN(4, return_sequences=True, dropout=0.5, name="rnn")
    seen = found(
        model_of(
            keras.layers.Bidirectional(rnn, name="both"),
            keras.Sequential([keras.Input((None, 8)), gru], name="inner"),
        )
    )
    assert seen.status == "pass"
    assert seen.detail == "both/forward_rnn, both/backward_rnn, inner/gru; batch 2, length 3"


def test_a_model_that_masks_is_compared_masked():
    masking = keras.layers.Masking(-9.0)
    seen = found(model_of(masking, keras_norm.LayerNormGRU(4, go_backwards=True, name="gru")))
    assert (seen.status, seen.detail) == ("pass", "gru; batch 7, length 6, padded right")


def test_a_layer_that_trained_as_another_is_found_and_named(off_by_a_hundredth):
    model = model_of(keras_norm.LayerNormLSTM(4, name="lstm"))
    report = check(model, [KerasRunner(model)], DATA)
    (failure,) = report.failures
    assert (failure.subject, failure.check) == ("Keras model", "compiled recurrence")
    assert failure.detail.startswith("layer 'lstm': output 'sequence' differs by up to 0.01")
    assert "the tolerance is" in failure.detail
    assert "compiled=False" in next(
        f.advice for f in report.findings if f.observation == failure.detail
    )
    assert "compiled recurrence" in report.to_json()


@pytest.mark.parametrize(
    "layer",
    [
        keras_norm.BatchNormLSTM(4, max_timesteps=6),
        keras_norm.LayerNormLSTM(4, compiled=False),
        keras_norm.LayerNormLSTM(4, norm_form="joint"),
        keras.layers.LSTM(4),
    ],
    ids=["batch statistics", "never compiled", "not covered", "Keras' own"],
)
def test_a_layer_with_nothing_to_compare_is_left_out(layer, off_by_a_hundredth):
    assert found(model_of(layer)).status == "not applicable"


def test_a_model_that_cannot_be_rebuilt_says_why(monkeypatch):
    dense = keras.layers.Dense(2)
    model = model_of(dense, keras_norm.LayerNormLSTM(4))
    monkeypatch.setattr(dense, "get_config", lambda: {"units": None})
    seen = found(model)
    assert (seen.status, "cannot be rebuilt" in seen.detail) == ("not applicable", True)
