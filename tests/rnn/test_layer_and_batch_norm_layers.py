"""LayerNorm and BatchNorm layers: weights, initial values, equations, arguments."""

import json

import keras
import numpy as np
import pytest

from keras_norm import (
    BatchNormLSTM,
    LayerNormalization,
    LayerNormLSTM,
    LayerNormSimpleRNN,
    TimestepBatchNormalization,
)
from tests.check_layer import assert_refused, check_layer
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, KINDS, MASK, TIME, UNITS, MovingNorms

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def batch_norm(kind, **kwargs):
    options = {"dtype": "float64", "return_sequences": True, "return_state": True, **kwargs}
    return kind.preset("BatchNorm")(UNITS, **{"max_timesteps": 3, **options})


# Shared checks (gradient/test_recurrence.py trains the layers) ------------------------------------


@pytest.mark.parametrize(
    ("cls", "kwargs", "trainable", "non_trainable"),
    [
        (
            kinds.GRU.layer,
            {"norm": {"recurrent_norm": LayerNormalization()}, "return_state": True},
            5,
            0,
        ),
        (LayerNormSimpleRNN, {"return_sequences": True}, 7, 0),
        (BatchNormLSTM, {"max_timesteps": 2, "return_sequences": True}, 7, 9),
    ],
    ids=["dict of slots", "layer norm", "batch norm"],
)
def test_layers_pass_the_shared_layer_checks(cls, kwargs, trainable, non_trainable):
    check_layer(
        cls,
        {"units": 3, **kwargs},
        (4, 3, 2),
        expected_trainable=trainable,
        expected_non_trainable=non_trainable,
        train=False,
    )


@every_kind
@pytest.mark.parametrize(
    ("prefix", "kwargs"), [("Norm", {}), ("LayerNorm", {}), ("BatchNorm", {"max_timesteps": 2})]
)
def test_layers_are_registered_and_their_configuration_survives_json(kind, prefix, kwargs):
    cls = kind.preset(prefix)
    assert keras.saving.get_registered_name(cls) == f"keras_norm>{cls.__name__}"
    config = cls(3, **kwargs).get_config()
    assert cls.from_config(json.loads(json.dumps(config))).get_config() == config
    assert_refused(lambda: cls(3, no_such_argument=1, **kwargs), "no_such_argument")


@every_kind
@pytest.mark.parametrize(("prefix", "gains"), [("LayerNorm", 2), ("BatchNorm", 1)])
def test_presets_have_the_expected_number_of_weights(kind, prefix, gains):
    kwargs = {"max_timesteps": 2} if prefix == "BatchNorm" else {}
    layer = kinds.built(kind.preset(prefix)(3, **kwargs))
    has_beta = prefix == "BatchNorm" and "state_norm" in kind.slots
    assert len(layer.trainable_weights) == 3 + gains * len(kind.slots) + has_beta
    assert len(layer.non_trainable_weights) == (3 if kwargs else 0) * len(kind.slots)


# Layer normalization ----------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("mask", kinds.MASKS.values(), ids=kinds.MASKS)
def test_layer_norm_presets_match_ba_et_al_with_epsilon_1e_5(kind, mask):
    options = {"dtype": "float64", "return_sequences": True, "return_state": True}
    layer = kinds.built(kind.preset("LayerNorm")(UNITS, **options))
    assert {norm.epsilon for norm in layer.cell.slot_layers().values()} == {1e-5}
    assert list(layer.cell.slot_layers()) == list(kind.slots)
    kinds.assert_follows_oracle(layer, mask)


def test_layer_norm_lstm_takes_normalize_carry_and_norm_form():
    options = {"dtype": "float64", "return_sequences": True, "return_state": True}
    layer = kinds.built(LayerNormLSTM(UNITS, normalize_carry=True, **options))
    kinds.assert_follows_oracle(layer, MASK, step_options={"normalize_carry": True})
    kinds.assert_follows_oracle(
        kinds.built(LayerNormLSTM(UNITS, norm_form="joint", **options)), MASK
    )


# Batch normalization ----------------------------------------------------------------------------


@every_kind
def test_batch_norm_presets_are_initialized_as_in_cooijmans_et_al(kind):
    """gamma is 0.1, only the state norm has a beta, moving means are 0 and variances 1."""
    layer = batch_norm(kind)
    layer.build((None, None, FEATURES))
    for slot, norm in layer.cell.slot_layers().items():
        assert isinstance(norm, TimestepBatchNormalization)
        np.testing.assert_allclose(norm.gamma, 0.1)
        assert (norm.beta is not None) == (slot == "state_norm")
        assert norm.moving_mean.shape == (3, kind.slots[slot] * UNITS)
        np.testing.assert_array_equal(norm.moving_mean, 0.0)
        np.testing.assert_array_equal(norm.moving_variance, 1.0)
        assert norm.epsilon == 1e-5
        assert norm.momentum == 0.99
    assert list(layer.cell.slot_layers()) == list(kind.slots)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in KINDS),
        (kinds.GRU, {"momentum": None}),
        (kinds.SIMPLE_RNN, {"momentum": 0.5, "epsilon": 1e-3}),
        (kinds.SIMPLE_RNN, {"debias": False}),
    ],
    ids=str,
)
def test_batch_norm_presets_match_cooijmans_et_al(kind, options):
    layer = kinds.built(batch_norm(kind, **options))
    moving, weights = MovingNorms(layer.cell), kinds.values(layer.cell)
    x, states = kinds.inputs(), kinds.initial_states(kind)
    for training in (True, True, False):
        expected = kinds.reference(
            layer.cell, weights, x, states, MASK, training=training, moving=moving
        )
        actual = layer(x, initial_state=kinds.cast(states), mask=MASK, training=training)
        kinds.assert_close(actual, expected, 1e-7 if options == {"debias": False} else 1e-10)


@every_kind
def test_inference_after_one_batch_equals_training_on_that_batch(kind):
    """After one update, debiased statistics equal those of the batch."""
    layer = kinds.built(batch_norm(kind, max_timesteps=TIME))
    trained = layer(kinds.inputs(), training=True)
    kinds.assert_close(layer(kinds.inputs()), trained)


@every_kind
@pytest.mark.parametrize("suffix", ["", "Cell"])
def test_batch_norm_arguments_are_attributes_and_in_the_configuration(kind, suffix):
    options = {"max_timesteps": 7, "momentum": 0.5, "epsilon": 1e-3, "debias": False}
    layer = kind.preset("BatchNorm", suffix)(UNITS, **options)
    assert {name: getattr(layer, name) for name in options} == options
    assert layer.get_config().items() >= options.items()


@every_kind
@pytest.mark.parametrize("suffix", ["", "Cell"])
def test_a_missing_or_zero_max_timesteps_raises(kind, suffix):
    cls = kind.preset("BatchNorm", suffix)
    assert_refused(lambda: cls(UNITS), "max_timesteps")
    assert_refused(lambda: cls(UNITS, max_timesteps=0), "max_timesteps", "0")


@every_kind
@pytest.mark.parametrize("prefix", ["LayerNorm", "BatchNorm"])
@pytest.mark.parametrize("suffix", ["", "Cell"])
def test_passing_norm_to_a_preset_raises(kind, prefix, suffix):
    kwargs = {"max_timesteps": 3} if prefix == "BatchNorm" else {}
    cls = kind.preset(prefix, suffix)
    assert_refused(lambda: cls(UNITS, norm=LayerNormalization(), **kwargs), "norm")


def test_a_stacked_bidirectional_model_survives_saving(tmp_path):
    cls = kinds.SIMPLE_RNN.preset("BatchNorm")
    model = keras.Sequential(
        [
            keras.Input((None, FEATURES)),
            keras.layers.Masking(),
            keras.layers.Bidirectional(cls(UNITS, max_timesteps=3, return_sequences=True)),
            keras.layers.Bidirectional(cls(UNITS, max_timesteps=3), merge_mode="sum"),
            keras.layers.Dense(1),
        ]
    )
    kinds.randomize(model)
    x = np.where(MASK[..., None], kinds.inputs(), 0.0).astype("float32")
    for _ in range(2):
        model(x, training=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for restored, weight in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_array_equal(restored, weight, err_msg=weight.path)
    kinds.assert_close(loaded(x), model(x), 0)
    kinds.assert_close(loaded(x, training=True), model(x, training=True), 0)
