"""LayerNorm and BatchNorm layers: contract, weights, initial values, arguments."""

import json

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm import LayerNormalization, TimestepBatchNormalization
from tests.check_layer import assert_refused, check_layer
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, GRU, KINDS, LSTM, TIME, UNITS

PRESETS = {"Norm": {}, "LayerNorm": {}, "BatchNorm": {"max_timesteps": 3}}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_class = pytest.mark.parametrize("suffix", ["", "Cell"])


@pytest.mark.parametrize(
    ("cls", "kwargs", "trainable", "non_trainable"),
    [
        (
            GRU.layer,
            {"norm": {"recurrent_norm": LayerNormalization()}, "return_state": True},
            5,
            0,
        ),
        (LSTM.preset("BatchNorm"), {"max_timesteps": 2, "return_sequences": True}, 7, 9),
    ],
    ids=["dict of slots", "batch norm"],
)
def test_layers_meet_the_contract_of_check_layer(cls, kwargs, trainable, non_trainable):
    check_layer(
        cls,
        {"units": 3, **kwargs},
        (4, 3, 2),
        expected_trainable=trainable,
        expected_non_trainable=non_trainable,
        train=False,
    )


@every_kind
@every_class
@pytest.mark.parametrize("prefix", PRESETS)
def test_classes_are_registered_and_their_configuration_survives_json(kind, prefix, suffix):
    cls, kwargs = kind.preset(prefix, suffix), PRESETS[prefix]
    assert keras.saving.get_registered_name(cls) == f"keras_norm>{cls.__name__}"
    assert getattr(keras_norm, cls.__name__) is cls
    config = cls(UNITS, dropout=0.1, activation="relu", **kwargs).get_config()
    assert cls.from_config(json.loads(json.dumps(config))).get_config() == config
    assert_refused(lambda: cls(3, no_such_argument=1, **kwargs), "no_such_argument")
    if prefix != "Norm":
        assert_refused(lambda: cls(UNITS, norm=LayerNormalization(), **kwargs), "norm")


@every_kind
def test_layer_norm_classes_have_layer_normalization_with_epsilon_1e_5_in_every_slot(kind):
    layer = kinds.built(kind.preset("LayerNorm")(UNITS))
    layers = layer.cell.slot_layers()
    assert list(layers) == list(kind.slots)
    assert {type(norm) for norm in layers.values()} == {LayerNormalization}
    assert {norm.epsilon for norm in layers.values()} == {1e-5}
    assert len(layer.weights) == 3 + 2 * len(kind.slots)


@every_kind
def test_batch_norm_classes_are_initialized_as_in_cooijmans_et_al(kind):
    """gamma is 0.1, only the state norm has a beta, moving means are 0 and variances 1."""
    layer = kind.preset("BatchNorm")(UNITS, max_timesteps=3)
    layer.build((None, None, FEATURES))
    assert list(layer.cell.slot_layers()) == list(kind.slots)
    for slot, norm in layer.cell.slot_layers().items():
        assert type(norm) is TimestepBatchNormalization
        np.testing.assert_allclose(norm.gamma, 0.1)
        assert (norm.beta is not None) == (slot == "state_norm")
        assert norm.moving_mean.shape == (3, kind.slots[slot] * UNITS)
        assert (norm.moving_mean.numpy() == 0.0).all()
        assert (norm.moving_variance.numpy() == 1.0).all()
        assert (norm.epsilon, norm.momentum, norm.debias) == (1e-5, 0.99, True)


@every_kind
@every_class
def test_batch_norm_arguments_reach_the_norms_the_attributes_and_the_configuration(kind, suffix):
    options = {"max_timesteps": 7, "momentum": 0.5, "epsilon": 1e-3, "debias": False}
    cls = kind.preset("BatchNorm", suffix)
    layer = cls(UNITS, **options)
    assert layer.get_config().items() >= options.items()
    cell = layer if suffix else layer.cell
    cell.build((None, FEATURES))
    for owner in (layer, *cell.slot_layers().values()):
        assert {name: getattr(owner, name) for name in options} == options
    assert_refused(lambda: cls(UNITS), "max_timesteps")
    assert_refused(lambda: cls(UNITS, max_timesteps=0), "max_timesteps", "0")


def test_inference_after_one_batch_equals_training_on_that_batch():
    """After one update, debiased statistics equal those of the batch."""
    options = {"dtype": "float64", "return_sequences": True}
    layer = kinds.built(GRU.preset("BatchNorm")(UNITS, max_timesteps=TIME, **options))
    trained = layer(kinds.inputs(), training=True)
    kinds.assert_close(layer(kinds.inputs()), trained)
