"""LayerNorm and BatchNorm layers: contract, weights, initial values, arguments."""

import numpy as np
import pytest

from keras_norm import LayerNormalization, TimestepBatchNormalization
from tests.check_layer import assert_refused, check_layer
from tests.rnn.kinds import FEATURES, GRU, KINDS, LSTM, UNITS

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_class = pytest.mark.parametrize("suffix", ["", "Cell"])


BATCH_OPTIONS = {"max_timesteps": 2, "return_sequences": True}
SLOT_OPTIONS = {"norm": {"recurrent_norm": LayerNormalization()}, "return_state": True}


@pytest.mark.parametrize(
    ("cls", "kwargs", "trainable", "non_trainable"),
    [(GRU.layer, SLOT_OPTIONS, 5, 0), (LSTM.preset("BatchNorm"), BATCH_OPTIONS, 7, 9)],
    ids=["dict of slots", "batch norm"],
)
def test_layers_meet_the_contract_of_check_layer(cls, kwargs, trainable, non_trainable):
    counts = {"expected_trainable": trainable, "expected_non_trainable": non_trainable}
    check_layer(cls, {"units": 3, **kwargs}, (4, 3, 2), **counts, train=False)


@every_kind
@every_class
@pytest.mark.parametrize("epsilon", [{}, {"epsilon": 0.5}], ids=str)
def test_layer_norm_classes_have_layer_normalization_with_epsilon_in_every_slot(
    kind, suffix, epsilon
):
    """A configuration without epsilon has the default of 1e-5."""
    cls, expected = kind.preset("LayerNorm", suffix), epsilon.get("epsilon", 1e-5)
    layer = cls(UNITS, **epsilon)
    config = layer.get_config()
    assert layer.epsilon == config["epsilon"] == cls.from_config(config).epsilon == expected
    del config["epsilon"]
    assert cls.from_config(config).epsilon == 1e-5
    layer.build((None, FEATURES) if suffix else (None, None, FEATURES))
    norms = getattr(layer, "cell", layer).slot_layers()
    assert list(norms) == list(kind.slots)
    assert {(type(norm), norm.epsilon) for norm in norms.values()} == {
        (LayerNormalization, expected)
    }
    assert_refused(lambda: cls(3, epsilon=-1), "epsilon", "-1")


@every_kind
@every_class
@pytest.mark.parametrize("options", [{}, {"momentum": 0.5, "epsilon": 1e-3, "debias": False}])
def test_batch_norm_classes_are_initialized_as_in_cooijmans_et_al(kind, suffix, options):
    """gamma is 0.1, only the state norm has a beta, moving means are 0 and variances 1."""
    cls = kind.preset("BatchNorm", suffix)
    layer = cls(UNITS, 3, **options)
    expected = {"max_timesteps": 3, "momentum": 0.99, "epsilon": 1e-5, "debias": True, **options}
    assert layer.get_config().items() >= expected.items()
    layer.build((None, FEATURES) if suffix else (None, None, FEATURES))
    norms = getattr(layer, "cell", layer).slot_layers()
    for owner in (layer, *norms.values()):
        assert {name: getattr(owner, name) for name in expected} == expected
    for slot, norm in norms.items():
        assert type(norm) is TimestepBatchNormalization
        np.testing.assert_allclose(norm.gamma, 0.1)
        assert (norm.beta is not None) == (slot == "state_norm")
        assert norm.moving_mean.shape == (3, kind.slots[slot] * UNITS)
        assert (norm.moving_mean.numpy() == 0.0).all()
        assert (norm.moving_variance.numpy() == 1.0).all()
    assert list(norms) == list(kind.slots)
    assert_refused(lambda: cls(UNITS, max_timesteps=0), "max_timesteps", "0")
