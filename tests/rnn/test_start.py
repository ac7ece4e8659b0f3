"""How a normalized recurrence starts, and what sequences that begin with zeros do to it."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm import LayerNormalization, RMSNormalization, VarianceNormalization
from keras_norm.rnn.candidate_normal import CandidateNormal
from tests.rnn.kinds import FEATURES, GRU, KINDS, LSTM, SIMPLE_RNN

FORM = "auto"
UNITS = 16
CANDIDATES = {"LSTM": 2, "GRU": 2, "SimpleRNN": 0}

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)

LAYER_NORM, RMS = LayerNormalization(epsilon=1e-5), RMSNormalization()
STARTS = [
    *[(kind, {"norm": LAYER_NORM}) for kind in KINDS],
    (LSTM, {"norm": RMS}),
    (GRU, {"norm": LAYER_NORM, "use_bias": False}),
    (LSTM, {"norm": LAYER_NORM, "norm_form": "joint"}),
    (LSTM, {"norm": LAYER_NORM, "normalize_carry": True}),
]


def built(layer):
    layer.build((None, None, FEATURES))
    return layer


def bias(layer):
    """The bias by gates (gates, units)."""
    return np.reshape(built(layer).cell.bias, (-1, layer.units))


# Zeros at the start -----------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "options"), STARTS, ids=str)
def test_gradients_are_moderate_after_zeros(kind, options):
    """With zero biases they are NaN, with a deviation of 0.3 up to 1e5."""
    layer = built(kind.layer(UNITS, compiled=False, **options))
    x = np.random.default_rng(0).normal(size=(4, 310, FEATURES)).astype("float32")
    x[:, :300] = 0.0

    @tf.function(autograph=False)
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(layer(x, training=True) - 1.0))
        return tape.gradient(loss, layer.trainable_variables)

    assert max(np.abs(gradient).max() for gradient in gradients()) < 30.0


@pytest.mark.parametrize("kind", [LSTM, SIMPLE_RNN], ids=str)
def test_sequences_padded_in_front_are_learned(kind):
    """By keras.utils.pad_sequences as it is by default, with no mask.

    A GRU's gradients grow least.
    """
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(length, FEATURES)) for length in rng.integers(3, 9, 64)]
    y = np.array([sequence[-3:, 0].sum() > 0 for sequence in x], "float32")
    padded = keras.utils.pad_sequences(x, maxlen=60, dtype="float32")
    assert not padded[:, :50].any()
    model = keras.Sequential(
        [kind.preset("LayerNorm")(UNITS), keras.layers.Dense(1, activation="sigmoid")]
    )
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
    losses = model.fit(padded, y, batch_size=16, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


# The start --------------------------------------------------------------------------------------


@every_kind
def test_the_candidate_alone_starts_from_normal_numbers(kind):
    layer = kind.preset("LayerNorm")(200)
    keras_start = bias(kind.keras_layer(200)).reshape(-1, kind.gates, 200)[0]
    start = bias(layer)
    assert start.shape == (kind.gates, 200)
    numbers = start[CANDIDATES[kind.name]]
    assert 0.8 < numbers.std() < 1.2
    assert np.abs(numbers.mean()) < 0.25
    rest = [gate for gate in range(kind.gates) if gate != CANDIDATES[kind.name]]
    np.testing.assert_array_equal(start[rest], keras_start[rest])


def test_without_the_ones_of_the_forget_gate_the_others_are_zero():
    start = bias(keras_norm.LayerNormLSTM(UNITS, unit_forget_bias=False))
    assert (start != 0).any(axis=1).tolist() == [False, False, True, False]


@every_kind
@pytest.mark.parametrize(
    "norm",
    [LAYER_NORM, RMS, VarianceNormalization(), keras.layers.LayerNormalization()],
    ids=lambda norm: type(norm).__name__,
)
@pytest.mark.parametrize("everywhere", [True, False])
def test_any_norm_of_rows_in_any_slot_has_it(kind, norm, everywhere):
    norm = norm if everywhere else {"recurrent_norm": norm}
    assert bias(kind.layer(UNITS, norm=norm))[CANDIDATES[kind.name]].all()


@every_kind
def test_where_nothing_divides_by_zero_the_start_is_that_of_keras(kind):
    expected = np.asarray(built(kind.keras_layer(UNITS)).cell.bias)
    for layer in (
        kind.layer(UNITS),
        kind.layer(UNITS, norm={}),
        kind.preset("BatchNorm")(UNITS, 3),
        kind.preset("LayerNorm")(UNITS, bias_initializer="zeros"),
        kind.layer(UNITS, norm=LAYER_NORM, bias_initializer="zeros"),
    ):
        np.testing.assert_array_equal(
            bias(layer).ravel(), expected.ravel()[: np.size(layer.cell.bias)]
        )


@pytest.mark.parametrize(
    ("kind", "slot", "options"),
    [
        (LSTM, "kernel_norm", {}),
        (LSTM, "cell_norm", {"norm_form": "joint"}),
        (GRU, "kernel_candidate_norm", {}),
        (SIMPLE_RNN, "kernel_norm", {}),
    ],
)
def test_without_bias_the_beta_of_the_candidate_has_it(kind, slot, options):
    def betas(**more):
        layer = built(kind.layer(UNITS, use_bias=False, **{"norm": LAYER_NORM}, **options, **more))
        assert layer.cell.bias is None
        return {s: np.asarray(norm.beta) for s, norm in layer.cell.slot_layers().items()}

    started = betas()
    beta = started.pop(slot).reshape(-1, UNITS)
    gate = CANDIDATES[kind.name] if len(beta) == kind.gates else 0
    assert beta[gate].all()
    assert not np.delete(beta, gate, axis=0).any()
    assert not any(other.any() for other in started.values())
    assert not betas(bias_initializer="zeros")[slot].any()


def test_a_beta_initializer_of_the_users_stays():
    norm = LayerNormalization(beta_initializer="ones")
    layer = built(keras_norm.NormGRU(UNITS, norm=norm, use_bias=False))
    np.testing.assert_array_equal(layer.cell.kernel_candidate_norm.beta, np.ones(UNITS))


@pytest.mark.parametrize("start", [{}, {"beta_initializer": "zeros"}], ids=["none", "zeros"])
def test_a_norm_of_the_users_may_say_of_its_beta_what_it_likes(start):
    class Own(LayerNormalization):
        def __init__(self, **kwargs):
            super().__init__(**{"beta_initializer": "zeros", **kwargs})

        def get_config(self):
            config = super().get_config()
            del config["beta_initializer"]
            return config | start

    layer = built(keras_norm.NormLSTM(UNITS, norm=Own(), use_bias=False))
    assert layer.use_bias == (not start)


@every_kind
def test_without_a_beta_there_is_a_bias_all_the_same(kind):
    for norm in (RMS, {"recurrent_norm": LAYER_NORM}):
        layer = kind.layer(UNITS, norm=norm, use_bias=False)
        assert layer.use_bias
        assert bias(layer)[CANDIDATES[kind.name]].all()
        bare = built(kind.layer(UNITS, norm=norm, use_bias=False, bias_initializer="zeros"))
        assert bare.cell.bias is None


# Seeds and configuration ------------------------------------------------------------------------


@every_kind
def test_a_seed_makes_it_reproducible(kind):
    def start(seed):
        keras.utils.set_random_seed(seed)
        return [bias(kind.preset("LayerNorm")(UNITS)) for _ in range(2)]

    first, second = start(3)
    np.testing.assert_array_equal(start(3), [first, second])
    assert np.abs(first - second).max() > 0.1
    assert np.abs(start(4)[0] - first).max() > 0.1


@every_kind
@pytest.mark.parametrize("norm", [LAYER_NORM, RMS], ids=["layer", "rms"])
@pytest.mark.parametrize("use_bias", [True, False])
def test_configuration_keeps_the_start_for_any_units(kind, norm, use_bias):
    layer = kind.layer(UNITS, norm=norm, use_bias=use_bias)
    config = json.loads(json.dumps(layer.get_config()))
    again = kind.layer.from_config(config)
    assert again.get_config() == layer.get_config()
    wider = built(kind.layer.from_config({**config, "units": 3 * UNITS}))
    random = [weight for weight in wider.trainable_weights if weight.name in ("bias", "beta")]
    candidates = sum(np.isin(weight, [0.0, 1.0], invert=True).sum() for weight in random)
    assert candidates == 3 * UNITS


@every_kind
def test_configurations_from_before_start_as_they_did(kind):
    config = kind.preset("LayerNorm")(UNITS, bias_initializer="zeros", use_bias=False).get_config()
    assert config["bias_initializer"]["class_name"] == "Zeros"
    layer = built(kind.preset("LayerNorm").from_config(config))
    assert layer.cell.bias is None
    assert not any(np.any(norm.beta) for norm in layer.cell.slot_layers().values())


def test_another_deviation():
    start = CandidateNormal(stddev=0.1)
    numbers = bias(keras_norm.LayerNormLSTM(300, bias_initializer=start))[2]
    assert 0.08 < numbers.std() < 0.12
