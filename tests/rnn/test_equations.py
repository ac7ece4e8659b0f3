"""Compare LSTM, GRU and SimpleRNN with the equations of Ba et al. and with the layers of Keras."""

import keras
import numpy as np
import pytest

from keras_norm import (
    BatchNormGRU,
    BatchNormLSTM,
    LayerNormalization,
    LayerNormGRU,
    NormGRU,
    NormGRUCell,
    NormLSTM,
    RMSNormalization,
)
from keras_norm.rnn.lstm import NormLSTMCell
from tests.check_layer import assert_refused
from tests.pairwise import pairwise
from tests.rnn import kinds
from tests.rnn.kinds import (
    FEATURES,
    GRU,
    KINDS,
    LSTM,
    MASK,
    MASKS,
    PER_SAMPLE_NORMS,
    SIMPLE_RNN,
    UNITS,
)

NORM = LayerNormalization()
RMS = RMSNormalization()
GATES = dict.fromkeys(("input_norm", "cell_norm", "output_norm"), NORM)
ONE_WITHOUT_GAMMA = {**GATES, "forget_norm": LayerNormalization(scale=False)}

# Options of a layer, and the options of the oracle's step.
VARIANTS = {
    "LSTM, no bias": (LSTM, NORM, {"use_bias": False}, {}),
    "LSTM, joint, some": (LSTM, GATES, {"norm_form": "joint"}, {}),
    "LSTM, joint, some gammas": (LSTM, ONE_WITHOUT_GAMMA, {"norm_form": "joint"}, {}),
    "LSTM, joint, mixed": (LSTM, {**GATES, "cell_norm": RMS}, {"norm_form": "joint"}, {}),
    "LSTM, carry": (LSTM, NORM, {"normalize_carry": True}, {"normalize_carry": True}),
    "GRU, no bias": (GRU, NORM, {"use_bias": False}, {}),
    "GRU, reset before": (GRU, None, {"reset_after": False}, {"reset_after": False}),
    **{f"GRU, {slot}": (GRU, {slot: NORM}, {}, {}) for slot in GRU.slots},
}
# test_options.py has every pair of a norm, a form and a bias.
NORMS = [
    *((kind, name) for kind in KINDS for name in ("layer", "variance")),
    *((LSTM, name) for name in ("recurrent only", "mixed slots")),
    *((SIMPLE_RNN, name) for name in ("keras group", "keras unit")),
]
CASES = {
    **{f"{kind}, {name}": (kind, PER_SAMPLE_NORMS[name], {}, {}) for kind, name in NORMS},
    **VARIANTS,
}


@pytest.mark.parametrize(("kind", "norm", "options", "step"), CASES.values(), ids=CASES)
def test_outputs_and_gradients_match_the_equations(kind, norm, options, step):
    """The compiled path, the loop, and inference have the gradients of the oracle."""
    layer = kinds.build(kind, norm, **options)
    assert (layer.cell.bias is None) == (not options.get("use_bias", True))
    for mask in MASKS.values():
        kinds.assert_follows_oracle(layer, mask, step_options=step)
    exact = kinds.oracle_gradients(layer, MASK, step_options=step)
    runs = [(False, True), ("auto", False)]
    if kinds.recurrence(layer) is not None:
        runs.append(("auto", True))
    for compiled, training in runs:
        layer.compiled = compiled
        kinds.assert_gradients_equal(layer, exact, MASK, training)


def test_the_joint_form_without_norms_equals_the_separate_form():
    joint, separate = kinds.build(LSTM, norm_form="joint"), kinds.build(LSTM)
    kinds.assert_close(joint(kinds.inputs()), separate(kinds.inputs()), 1e-12)


def test_the_joint_form_of_batch_norm_has_statistics_for_every_gate():
    layer = BatchNormLSTM(3, max_timesteps=kinds.TIME, norm_form="joint", return_sequences=True)
    layer(kinds.inputs(), training=True)
    for slot in NormLSTMCell.slot_sizes("joint"):
        norm = getattr(layer.cell, slot)
        assert (norm.gamma.numpy() == 0.1).all()
        assert not norm.center
        assert norm.update_count.numpy().all()


@pytest.mark.parametrize(
    "options",
    pairwise(
        kind=[(LSTM, {}), (GRU, {}), (GRU, {"reset_after": False}), (SIMPLE_RNN, {})],
        mask=[None, MASK],
        training=[True, False],
        activation=["tanh", "relu"],
        use_bias=[True, False],
        go_backwards=[False, True],
        unroll=[False, True],
        zero_output_for_mask=[False, True],
        dropout=[0.0, 0.3],
        recurrent_dropout=[0.0, 0.4],
    ),
    ids=lambda options: ", ".join(f"{name}={value}"[:30] for name, value in options.items()),
)
def test_without_norm_the_layer_equals_that_of_keras(options):
    """Outputs, states and gradients are equal.

    Keras does not reverse the mask of an unrolled layer that goes backwards: unroll only ours.
    """
    options = {"seed": 7, "dtype": "float64", "return_sequences": True, **options}
    (kind, own), mask, training = (options.pop(name) for name in ("kind", "mask", "training"))
    if options["activation"] == "relu" and kind is not SIMPLE_RNN:
        own = {"recurrent_activation": "hard_sigmoid", **own}
    options |= {"return_state": True, **own}
    ours = kinds.built(kind.layer(UNITS, **options))
    theirs = kind.keras_layer(UNITS, **{**options, "unroll": False})
    theirs.build((None, None, FEATURES))
    theirs.set_weights(ours.get_weights())
    x, states = kinds.cast(kinds.inputs()), kinds.cast(kinds.initial_states(kind))
    found = [
        kinds.train(layer, x, states, None if mask is None else kinds.cast(mask, "bool"), training)
        for layer in (ours, theirs)
    ]
    kinds.assert_close(*found, 1e-12)


@pytest.mark.parametrize("unit_forget_bias", [True, False])
def test_the_forget_gate_bias_is_initialized_as_in_keras(unit_forget_bias):
    layers = [cls(3, unit_forget_bias=unit_forget_bias) for cls in (NormLSTM, LSTM.keras_layer)]
    for layer in layers:
        layer.build((None, None, 2))
    kinds.assert_close(*([layer.cell.bias] for layer in layers), 0)


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (NormGRU, {}),
        (NormGRU, {"norm": NORM, "norm_form": "joint_all"}),
        (NormGRUCell, {"norm": RMS, "use_bias": False, "dtype": "bfloat16"}),
        (LayerNormGRU, {"bias_initializer": "glorot_uniform"}),
        (BatchNormGRU, {"max_timesteps": 5}),
    ],
)
def test_unit_update_bias_only_initializes_the_bias_of_z_with_ones(cls, options):
    config = cls(3, unit_update_bias=True, **options).get_config()
    biases = []
    for arguments in (config, cls(3, **options).get_config()):
        keras.utils.set_random_seed(5)
        layer = cls.from_config(arguments)
        layer.build((None, 4) if cls is NormGRUCell else (None, None, 4))
        biases.append(np.asarray(getattr(layer, "cell", layer).bias).ravel().astype("float32"))
    assert (biases[0][:3] == 1.0).all()
    np.testing.assert_array_equal(biases[0][3:], biases[1][3:])
    assert config["bias_initializer"] == cls(3, **options).get_config()["bias_initializer"]


def test_a_normalized_gru_has_one_bias_and_a_gru_without_norms_the_two_of_keras():
    for norm in (NORM, {"kernel_norm": NORM}):
        assert kinds.build(GRU, norm).cell.bias.shape == (3 * UNITS,)
    assert kinds.build(GRU).cell.bias.shape == (2, 3 * UNITS)


def test_regularizers_and_constraints_apply_to_a_normalized_gru():
    names = "kernel", "recurrent", "bias"
    options = {f"{name}_regularizer": "l2" for name in names}
    options |= {f"{name}_constraint": "non_neg" for name in names}
    layer = kinds.build(GRU, NORM, **options)
    for weight in (layer.cell.kernel, layer.cell.recurrent_kernel, layer.cell.bias):
        assert weight.regularizer is not None
        assert weight.constraint is not None
    assert len(layer.losses) == 3


OF_A_BIAS = {"unit_update_bias": True, "use_bias": False}


@pytest.mark.parametrize(
    ("cls", "options", "fragments"),
    [
        (NormLSTM, {"norm_form": "both"}, ["norm_form", "both", "separate", "joint"]),
        (NormLSTM, {"norm_form": "joint", "normalize_carry": True}, ["normalize_carry", "joint"]),
        (NormLSTM, {"norm_form": "joint", "norm": {"state_norm": NORM}}, ["state_norm", "forget"]),
        (NormGRU, {"norm": NORM, "reset_after": False}, ["reset_after"]),
        (NormGRU, {"norm": NORM, **OF_A_BIAS}, ["unit_update_bias=True and use_bias=False. Leave"]),
    ],
    ids=str,
)
def test_options_that_do_not_fit_together_raise(cls, options, fragments):
    assert_refused(lambda: cls(3, **options), *fragments)


def test_a_gru_without_norms_may_have_reset_after_false():
    assert not NormGRU(3, norm={"kernel_norm": None}, reset_after=False).reset_after


def test_a_failed_build_does_not_change_reset_after():
    cell = NormGRUCell(3, norm=NORM)
    assert_refused(lambda: cell.build((None, None)), "None")
    assert cell.reset_after
