"""The initializer of the candidate's bias, and training on sequences that begin with zeros."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm import LayerNormalization, RMSNormalization, VarianceNormalization
from keras_norm.rnn.candidate_normal import CandidateNormal
from tests.rnn.kinds import FEATURES, GRU, KINDS, LSTM, SIMPLE_RNN

UNITS = 16
CANDIDATES = {"LSTM": 2, "GRU": 2, "SimpleRNN": 0}

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)

LAYER_NORM, RMS = LayerNormalization(epsilon=1e-5), RMSNormalization()
LAYERS = [
    (SIMPLE_RNN, {"norm": RMS}),
    (GRU, {"norm": LAYER_NORM, "use_bias": False}),
    (LSTM, {"norm": LAYER_NORM, "norm_form": "joint"}),
]


def built(layer):
    layer.build((None, None, FEATURES))
    return layer


def bias(layer):
    """Return the bias as (gates, units)."""
    return np.reshape(built(layer).cell.bias, (-1, layer.units))


@pytest.mark.parametrize(("kind", "options"), LAYERS, ids=str)
def test_gradients_stay_small_after_leading_zeros(kind, options):
    """With zero biases the gradients are NaN, with a deviation of 0.3 they reach 1e5."""
    layer = built(kind.layer(UNITS, compiled=False, **options))
    x = np.random.default_rng(0).normal(size=(4, 310, FEATURES)).astype("float32")
    x[:, :300] = 0.0

    @tf.function(autograph=False)
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(layer(x, training=True) - 1.0))
        return tape.gradient(loss, layer.trainable_variables)

    assert max(np.abs(gradient).max() for gradient in gradients()) < 30.0


@every_kind
@pytest.mark.parametrize("stddev", [1.0, 0.1])
def test_only_the_bias_of_the_candidate_is_random(kind, stddev):
    given = {} if stddev == 1.0 else {"bias_initializer": CandidateNormal(stddev=stddev)}
    layer = kind.preset("LayerNorm")(200, **given)
    keras_bias = bias(kind.keras_layer(200)).reshape(-1, kind.gates, 200)[0]
    initial = bias(layer)
    assert initial.shape == (kind.gates, 200)
    numbers = initial[CANDIDATES[kind.name]]
    assert 0.8 < numbers.std() / stddev < 1.2
    assert np.abs(numbers.mean()) < 0.25
    rest = [gate for gate in range(kind.gates) if gate != CANDIDATES[kind.name]]
    np.testing.assert_array_equal(initial[rest], keras_bias[rest])


@every_kind
def test_any_per_sample_norm_selects_the_random_bias(kind):
    for norm in (LAYER_NORM, RMS, VarianceNormalization(), keras.layers.LayerNormalization()):
        for given in (norm, {"recurrent_norm": norm}):
            assert bias(kind.layer(UNITS, norm=given))[CANDIDATES[kind.name]].all()


@every_kind
def test_other_layers_have_the_bias_initializer_of_keras(kind):
    """Configurations of older versions have the initializer "zeros"."""
    expected = np.asarray(built(kind.keras_layer(UNITS)).cell.bias).ravel()
    zeros = kind.preset("LayerNorm")(UNITS, bias_initializer="zeros")
    layers = [kind.layer(UNITS), kind.layer(UNITS, norm={}), kind.preset("BatchNorm")(UNITS, 3)]
    for layer in (*layers, zeros, type(zeros).from_config(zeros.get_config())):
        initial = bias(layer).ravel()
        np.testing.assert_array_equal(initial, expected[: initial.size])


@pytest.mark.parametrize(
    ("kind", "slot", "options"),
    [
        (LSTM, "kernel_norm", {}),
        (LSTM, "cell_norm", {"norm_form": "joint"}),
        (GRU, "kernel_candidate_norm", {}),
        (SIMPLE_RNN, "kernel_norm", {}),
    ],
)
def test_without_bias_the_beta_of_the_candidate_is_random(kind, slot, options):
    def betas(**more):
        layer = built(kind.layer(UNITS, use_bias=False, **{"norm": LAYER_NORM}, **options, **more))
        assert layer.cell.bias is None
        return {s: np.asarray(norm.beta) for s, norm in layer.cell.slot_layers().items()}

    initial = betas()
    beta = initial.pop(slot).reshape(-1, UNITS)
    gate = CANDIDATES[kind.name] if len(beta) == kind.gates else 0
    assert beta[gate].all()
    assert not np.delete(beta, gate, axis=0).any()
    assert not any(other.any() for other in initial.values())
    assert not betas(bias_initializer="zeros")[slot].any()


@pytest.mark.parametrize("saved", [{}, {"beta_initializer": "zeros"}], ids=["none", "zeros"])
def test_a_norm_without_beta_initializer_in_its_configuration_works(saved):
    class Custom(LayerNormalization):
        def __init__(self, **kwargs):
            super().__init__(**{"beta_initializer": "zeros", **kwargs})

        def get_config(self):
            config = super().get_config()
            del config["beta_initializer"]
            return config | saved

    layer = built(keras_norm.NormLSTM(UNITS, norm=Custom(), use_bias=False))
    assert layer.use_bias == (not saved)


@every_kind
def test_without_a_beta_the_cell_has_a_bias(kind):
    for norm in (RMS, {"recurrent_norm": LAYER_NORM}):
        layer = kind.layer(UNITS, norm=norm, use_bias=False)
        assert layer.use_bias
        assert bias(layer)[CANDIDATES[kind.name]].all()
        bare = built(kind.layer(UNITS, norm=norm, use_bias=False, bias_initializer="zeros"))
        assert bare.cell.bias is None


@pytest.mark.parametrize(
    ("kind", "norm", "use_bias"),
    [
        (LSTM, LAYER_NORM, True),
        (LSTM, LAYER_NORM, False),
        (GRU, LAYER_NORM, False),
        (GRU, RMS, False),
        (SIMPLE_RNN, RMS, True),
    ],
    ids=str,
)
def test_the_configuration_keeps_the_initializer_for_any_units(kind, norm, use_bias):
    layer = kind.layer(UNITS, norm=norm, use_bias=use_bias)
    config = json.loads(json.dumps(layer.get_config()))
    assert kind.layer.from_config(config).get_config() == layer.get_config()
    wider = built(kind.layer.from_config({**config, "units": 3 * UNITS}))
    random = [weight for weight in wider.trainable_weights if weight.name in ("bias", "beta")]
    candidates = sum(np.isin(weight, [0.0, 1.0], invert=True).sum() for weight in random)
    assert candidates == 3 * UNITS
