"""Cells and norms that a user defines train with the custom gradient, which equals the loop."""

from typing import ClassVar

import keras
import pytest

from keras_norm import (
    LayerNormalization,
    NormLSTM,
    NormLSTMCell,
    NormSimpleRNN,
    NormSimpleRNNCell,
    TimestepBatchNormalization,
)
from keras_norm.layers.normalization import Affine
from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.rnn.core.recurrence import CANDIDATE, StepResult
from tests.rnn import kinds
from tests.rnn.core.extensions import LoopMixingLSTM, MeanNorm, MeanNormalization, MixingLSTM
from tests.rnn.kinds import GRU, LSTM, MASK, SIMPLE_RNN, UNITS

NORMS = {"none": None, "layer": LayerNormalization(), "timestep": TimestepBatchNormalization(3)}
DROPOUT = {"dropout": 0.3, "recurrent_dropout": 0.3, "seed": 3}


def build(layer_class, norm=None, **options):
    """Build a float64 layer with random weights."""
    options = {"dtype": "float64", "return_sequences": True, "return_state": True, **options}
    return kinds.built(layer_class(UNITS, norm=norm, **options))


def sequences(kind):
    return kinds.cast(kinds.inputs()), kinds.cast(kinds.initial_states(kind))


class ProductCell(NormSimpleRNNCell):
    """h = tanh(kernel_norm(W x) * recurrent_norm(U h)), in place of the sum."""

    @staticmethod
    def forward_step(x, u, states, weights, activate, norm):
        (h,) = activate(x[0] * u[0], (CANDIDATE,))
        return StepResult([h], [h], [])


class ProductRNN(NormSimpleRNN):
    cell_class = ProductCell


def test_a_cell_that_multiplies_a_norm_equals_keras_rnn():
    """The loop adds beta of recurrent_norm to the bias only if the cell adds its output."""
    layer = build(ProductRNN, LayerNormalization(), return_state=False)
    x, _ = sequences(SIMPLE_RNN)
    expected = keras.layers.RNN(layer.cell, return_sequences=True, dtype="float64")(x)
    kinds.assert_close(layer(x), expected)


class TwoBiasesCell(NormSimpleRNNCell):
    """h = tanh(kernel_norm(W x) + bias + recurrent_norm(U h) + recurrent_bias)."""

    def build(self, input_shape):
        super().build(input_shape)
        self.recurrent_bias = self.add_weight((self.units,), "zeros", name="recurrent_bias")

    def step_weights(self):
        return super().step_weights()._replace(recurrent_bias=self.recurrent_bias)

    @staticmethod
    def forward_step(*args):
        return NormSimpleRNNCell.forward_step(*args)

    @staticmethod
    def backward_step(*args):
        return NormSimpleRNNCell.backward_step(*args)


class TwoBiasesRNN(NormSimpleRNN):
    cell_class = TwoBiasesCell


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_both_biases_are_added_after_the_norms_on_both_paths(norm):
    layer = build(TwoBiasesRNN, norm)
    assert kinds.recurrence(layer) is not None
    one_bias = build(NormSimpleRNN, norm, compiled=False)
    for name, variable in kinds.variables(one_bias.cell).items():
        variable.assign(kinds.variables(layer.cell)[name])
    one_bias.cell.bias.assign_add(layer.cell.recurrent_bias)
    x, states = sequences(SIMPLE_RNN)
    expected = one_bias(x, initial_state=states, mask=MASK)
    for compiled in (True, False):
        layer.compiled = compiled
        kinds.assert_close(layer(x, initial_state=states, mask=MASK), expected)


class StateNormCell(NormLSTMCell):
    """An LSTM cell whose only norm is inside the step."""

    SLOTS: ClassVar = {"state_norm": 1}


class StateNormLSTM(NormLSTM):
    cell_class = StateNormCell


def test_a_cell_with_only_an_inner_norm_equals_a_cell_that_leaves_its_other_norms_out():
    """It trains with the custom gradient."""
    layer, norm = build(StateNormLSTM, NORMS["layer"]), {"state_norm": NORMS["layer"]}
    other = build(NormLSTM, norm, compiled=False)
    other.set_weights(layer.get_weights())
    assert kinds.recurrence(layer) is not None
    kinds.assert_close(*(kinds.train(each, *sequences(LSTM), MASK) for each in (layer, other)))


def test_a_cell_without_a_backward_step_trains_in_the_loop():
    """The backward step of its base class belongs to another forward step."""
    loop, compiled = build(LoopMixingLSTM), build(MixingLSTM)
    assert kinds.recurrence(loop) is None
    found, expected = (kinds.train(layer, *sequences(LSTM)) for layer in (loop, compiled))
    kinds.assert_close(found, expected)
    layer = build(LoopMixingLSTM, compiled=True)
    with pytest.raises(ValueError, match="compiled=True does not support LoopMixingLSTM"):
        layer(kinds.inputs(), training=True)


RUNS = {
    "cell": (MixingLSTM, None, None, True),
    "cell, LayerNorm, inference": (MixingLSTM, NORMS["layer"], MASK, False),
    "cell, batch norm": (MixingLSTM, NORMS["timestep"], MASK, True),
    "cell and norm": (MixingLSTM, MeanNormalization(), MASK, True),
    "cell and norm, inference": (MixingLSTM, MeanNormalization(), MASK, False),
    "norm, GRU": (GRU.layer, MeanNormalization(), MASK, True),
}


@pytest.mark.parametrize(("layer_class", "norm", "mask", "training"), RUNS.values(), ids=RUNS)
def test_cells_and_norms_of_users_run_in_the_custom_gradient(layer_class, norm, mask, training):
    """A cell with further weights, and a norm in every slot, each with and without dropout."""
    options = {} if norm is NORMS["layer"] else DROPOUT

    def make(compiled):
        return build(layer_class, norm, compiled=compiled, **options)

    states = kinds.cast(kinds.initial_states(LSTM)[: 1 + issubclass(layer_class, NormLSTM)])
    x = kinds.cast(kinds.inputs())
    kinds.assert_compiled_equals_loop(make, x, states, mask, training=training)


class ShiftedGamma(LayerNormalization):
    """A subclass that changes gamma in a method of its base class."""

    def affine_weights(self, rank, axes):
        gamma, beta = super().affine_weights(rank, axes)
        return Affine(gamma + 1.0, beta)


class ScaledGamma(TimestepBatchNormalization):
    """A subclass that changes gamma in a method of its base class."""

    def correct_affine(self, affine, mean, variance):
        return affine._replace(gamma=affine.gamma * 0.8)


class DoubledSampleNorm(SampleNorm):
    """A norm whose gradient differs from the gradient that `Product` computes."""

    def apply(self, a, statistics, gamma):
        return 2.0 * super().apply(a, statistics, gamma)


class WithDoubledSampleNorm(LayerNormalization):
    """A layer with a subclass of `SampleNorm`."""

    def step_norm(self, training):
        return DoubledSampleNorm(True, self.epsilon)


@pytest.mark.parametrize(
    "norm",
    [ShiftedGamma(), ScaledGamma(3), WithDoubledSampleNorm()],
    ids=lambda norm: type(norm).__name__,
)
def test_a_norm_that_overrides_a_method_trains_in_the_loop(norm):
    """The inherited `step_norm` does not compute the methods of the subclass."""
    layer = kinds.build(LSTM, norm)
    assert kinds.recurrence(layer) is None
    kinds.train(layer, *sequences(LSTM))


def test_a_norm_that_overrides_its_configuration_trains_with_the_custom_gradient():
    class Configured(LayerNormalization):
        def __init__(self, note="", **kwargs):
            super().__init__(**kwargs)
            self.note = note

        def build(self, input_shape):
            super().build(input_shape)

        def get_config(self):
            return {**super().get_config(), "note": self.note}

    assert kinds.recurrence(kinds.build(LSTM, Configured("mine"))) is not None


@pytest.mark.parametrize(
    ("method", "result", "message"),
    [
        ("statistics", lambda a, *args: a, "statistics must return a list"),
        ("backward", lambda a, dy, *args: (dy, dy), "backward must return three gradients"),
    ],
)
def test_a_wrong_result_of_a_norm_raises_an_error(monkeypatch, method, result, message):
    monkeypatch.setattr(MeanNorm, method, lambda self, *args: result(*args))
    with pytest.raises(TypeError, match=message):
        kinds.train(build(NormLSTM, MeanNormalization()), *sequences(LSTM), None)
