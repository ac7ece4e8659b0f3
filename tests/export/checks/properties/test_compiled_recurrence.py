"""The recurrence that training compiles, compared with the exported recurrence."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.clone import clone_for_statistics
from keras_norm.export import check
from keras_norm.export.checks import model_clone
from keras_norm.export.checks.model_clone import ModelClone
from keras_norm.export.checks.plan import make_plan
from keras_norm.export.checks.properties.compiled_recurrence import CompiledRecurrence
from keras_norm.export.checks.properties.property import NotApplicable, Tolerances
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.compare.tolerance import TOLERANCES, Tolerance, default_share
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.signature import input_specs
from keras_norm.rnn import compiled

DATA = np.random.default_rng(0).normal(size=(3, 6, 3)).astype("float32")


def model_of(*layers):
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((None, 3), name="x"), *layers])


def judge_model(model):
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
    run = compiled.run

    def off(*arguments, **options):
        path, states, learned = run(*arguments, **options)
        return path, [state + 1e-2 for state in states], learned

    monkeypatch.setattr(compiled, "run", off)


def test_layers_with_equal_outputs_in_training_and_inference_pass():
    last = keras_norm.LayerNormSimpleRNN(4, recurrent_dropout=0.5, name="last")
    rnn = keras_norm.LayerNormSimpleRNN(4, return_sequences=True, dropout=0.5, name="rnn")
    result = judge_model(
        model_of(
            keras.layers.Bidirectional(rnn, name="both"),
            keras.Sequential([keras.Input((None, 8)), last], name="inner"),
        )
    )
    assert result.status == "pass"
    layers = "both/forward_rnn, both/backward_rnn, inner/last"
    assert result.detail == f"equal outputs of {layers}; batch 2, length 3"


def test_a_model_with_a_mask_runs_a_masked_test_input():
    masking = keras.layers.Masking(-9.0)
    result = judge_model(
        model_of(masking, keras_norm.LayerNormSimpleRNN(4, go_backwards=True, name="rnn"))
    )
    assert (result.status, result.detail) == (
        "pass",
        "equal outputs of rnn; batch 7, length 6, padded right",
    )


def test_the_failure_names_a_layer_whose_compiled_recurrence_differs(off_by_a_hundredth):
    model = model_of(keras_norm.LayerNormLSTM(4, name="lstm"))
    report = check(model, [KerasRunner(model)], DATA, batch_sizes=[3], lengths=[6])
    (failure,) = report.failures
    assert (failure.subject, failure.check) == ("Keras model", "compiled recurrence")
    assert failure.detail.startswith("layer 'lstm': output 'sequence' differs by up to 0.01")
    assert "the tolerance is" in failure.detail
    assert "compiled=False" in next(
        f.advice for f in report.findings if f.observation == failure.detail
    )
    assert "compiled recurrence" in report.to_json()


def test_a_check_clones_the_model_once(monkeypatch):
    clones = []

    def count(model):
        clones.append(clone_for_statistics(model))
        return clones[-1]

    monkeypatch.setattr(model_clone, "clone_for_statistics", count)
    batch_norm = keras.layers.BatchNormalization(name="bn")
    model = model_of(batch_norm, keras_norm.LayerNormSimpleRNN(4, name="rnn"))
    report = check(model, [KerasRunner(model)], DATA, batch_sizes=[3], lengths=[6])
    assert len(clones) == 1
    assert report.keras.property("compiled recurrence").status == "pass"
    assert [layer.path for layer in report.gap.layers] == ["bn"]


@pytest.mark.parametrize(
    "layer",
    [
        keras_norm.BatchNormSimpleRNN(4, max_timesteps=6),
        keras_norm.LayerNormSimpleRNN(4, compiled=False),
        keras_norm.LayerNormLSTM(4, norm_form="joint"),
        keras.layers.LSTM(4),
    ],
    ids=["batch statistics", "never compiled", "not covered", "Keras' own"],
)
def test_layers_that_training_does_not_compile_are_left_out(layer, off_by_a_hundredth):
    assert judge_model(model_of(layer)).status == "not applicable"


def test_the_reason_why_a_model_cannot_be_rebuilt_is_reported(monkeypatch):
    dense = keras.layers.Dense(2)
    model = model_of(dense, keras_norm.LayerNormSimpleRNN(4))
    monkeypatch.setattr(dense, "get_config", lambda: {"units": None})
    result = judge_model(model)
    assert (result.status, "cannot be rebuilt" in result.detail) == ("not applicable", True)
