"""Assigning statistics: all or none, and only those of the model."""

import itertools
import signal

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm import Statistics, assign_statistics, collect_statistics
from tests.recalibration.models import X, model_of

# Refusals -------------------------------------------------------------------------------------


def named(features=4):
    return model_of(keras_norm.BatchNormalization(name="norm"), shape=(features,))


def changed(**changes):
    """Collect the statistics of a model, and change the model."""

    def make():
        model = model_of(keras.layers.Dense(4), keras_norm.BatchNormalization(name="norm"))
        statistics = collect_statistics(model, X)
        for name, value in changes.items():
            setattr(model.layers[-1], name, value)
        return model, statistics

    return make


def with_other_weights():
    model, statistics = changed()()
    model.layers[0].kernel.assign(np.ones((4, 4)))
    return model, statistics


def with_large_statistics():
    """Return statistics that are finite in float64; the variance, 1e60, is not in float32."""
    model = named()
    parts = [np.full((2, 4), sign * 1e30, "float32") for sign in (-1.0, 1.0)]
    return model, collect_statistics(model, parts)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: (named(), "a.npz"), TypeError, r"class Statistics\. Received: 'a.npz'"),
        (lambda: (named(), collect_statistics(named(), X[:0])), ValueError, "no samples"),
        (lambda: (named(), collect_statistics(named(), X[:1])), ValueError, "two unmasked"),
        (lambda: (named(), Statistics({}, 1, "")), ValueError, "contain no layer"),
        (with_large_statistics, ValueError, "layer 'norm' are too large for its dtype float32"),
        (
            lambda: (named(3), collect_statistics(named(), X)),
            ValueError,
            r"the layer 'norm' with means of shape \(4,\).* has moving statistics of shape \(3,\)",
        ),
        (changed(trainable=False), ValueError, "are frozen"),
        (with_other_weights, ValueError, "with other weights than those of model"),
    ],
    ids=["type", "no samples", "one row", "no layers", "too large", "shape", "frozen", "weights"],
)
def test_statistics_that_do_not_fit_are_refused_and_nothing_is_assigned(make, error, message):
    model, statistics = make()
    before = model.get_weights()
    with pytest.raises(error, match=message):
        assign_statistics(model, statistics)
    for was, value in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(value, was)


# Interrupts -------------------------------------------------------------------------------------


def before_assignment(monkeypatch, variables, number, action):
    """Call `action` before the n-th assignment to any of the variables, with n = `number`."""
    assign, counted = keras.Variable.assign, itertools.count(1)
    ids = {id(variable) for variable in variables}

    def assign_or_act(variable, value):
        if id(variable) in ids and next(counted) == number:
            action()
        return assign(variable, value)

    monkeypatch.setattr(keras.Variable, "assign", assign_or_act)


@pytest.fixture
def statistics():
    """Yield the statistics of two layers and their model, with Python's SIGINT handler."""
    layers = [keras_norm.BatchNormalization() for _ in range(2)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield [v for layer in layers for v in layer.non_trainable_variables], model
    signal.signal(signal.SIGINT, handler)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def assert_initial(variables):
    for variable, value in zip(variables, [0.0, 1.0, 0.0, 1.0], strict=True):
        np.testing.assert_array_equal(variable, np.full(4, value))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_during_assignment_restores_all_statistics(statistics, monkeypatch, error):
    variables, model = statistics

    def fail():
        raise error

    for number in range(1, 5):
        with monkeypatch.context() as patch:
            before_assignment(patch, variables, number, fail)
            with pytest.raises(error):
                keras_norm.recalibrate(model, X)
        assert_initial(variables)


def test_ctrl_c_during_assignment_is_handled_after_all_assignments(statistics, monkeypatch):
    variables, model = statistics
    before_assignment(monkeypatch, variables, 2, lambda: [interrupt() for _ in range(3)])
    with pytest.raises(KeyboardInterrupt):
        keras_norm.recalibrate(model, X)
    np.testing.assert_allclose(variables[0], X.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(variables[1], X.var(axis=0), rtol=1e-5)
    np.testing.assert_allclose(variables[2], 0.0, atol=1e-5)
    np.testing.assert_allclose(variables[3], X.var(axis=0) / (X.var(axis=0) + 1e-3), rtol=1e-4)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_during_restoration_is_handled_after_all_assignments(statistics, monkeypatch):
    variables, model = statistics

    def fail():
        before_assignment(monkeypatch, variables, 2, interrupt)
        raise MemoryError

    before_assignment(monkeypatch, variables, 3, fail)
    with pytest.raises(KeyboardInterrupt):
        keras_norm.recalibrate(model, X)
    assert_initial(variables)


def test_ctrl_c_during_the_batches_leaves_the_model_unchanged(statistics):
    variables, model = statistics

    def batches():
        yield X
        interrupt()

    with pytest.raises(KeyboardInterrupt):
        keras_norm.recalibrate(model, batches())
    assert_initial(variables)
