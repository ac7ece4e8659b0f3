"""Compare the custom gradient with the loop, which TensorFlow differentiates.

tests/rnn/test_equations.py compares each layer with the equations of the papers.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import LayerNormalization, RMSNormalization, TimestepBatchNormalization
from tests.pairwise import pairwise
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, GRU, KINDS, LSTM, MASK, SIMPLE_RNN, TIME

ROWS = TIME - 1  # the last two timesteps share a row of statistics
ONE_UNMASKED = MASK & np.array([[1], [0], [0], [1], [1]], bool)  # of timestep 1
LAYER_NORM = LayerNormalization(epsilon=1e-3)
SIZES = [(2, 1), (17, 7), (5, 8), (2, 9)]  # test_batch_statistics.py has the batch of 1


def timestep(**options):
    return TimestepBatchNormalization(ROWS, **{"momentum": 0.7, **options})


NORMS = {"none": None, "layer": LAYER_NORM, "rms": RMSNormalization(), "timestep": timestep()}
MASKS = {**kinds.MASKS, "one unmasked": ONE_UNMASKED}


def maker(kind, norm=LAYER_NORM, **options):
    """Return a function that builds a layer whose first two timesteps have trained statistics."""

    def make(**compiled):
        layer = kinds.build(kind, norm, **options, **compiled)
        kinds.randomize_statistics(layer, reached=2)
        return layer

    return make


def sequences(kind, **sizes):
    """Inputs and initial states."""
    x, states = kinds.inputs(**sizes), kinds.initial_states(kind, **sizes)
    return kinds.cast(x), kinds.cast(states)


# Results, gradients of inputs, states and weights, and moving statistics -------------------------


@pytest.mark.parametrize(
    "options",
    pairwise(
        kind=KINDS,
        # A norm with its mode, so that each mode meets every mask.
        norm=[(name, True) for name in NORMS] + [("layer", False), ("timestep", False)],
        norm_form=["separate", "joint", "joint_all"],
        mask=list(MASKS),
        return_sequences=[True, False],
        go_backwards=[False, True],
        zero_output_for_mask=[False, True],
        use_bias=[True, False],
        dropout=[{}, {"dropout": 0.3}, {"recurrent_dropout": 0.3}],
    ),
    ids=lambda options: ", ".join(str(value) for value in options.values()),
)
def test_every_pair_of_options_matches_the_loop(options):
    kind, (norm, training), mask = (options[name] for name in ("kind", "norm", "mask"))
    names = ("norm_form", "return_sequences", "go_backwards", "zero_output_for_mask", "use_bias")
    make = maker(kind, NORMS[norm], seed=3, **options["dropout"], **{n: options[n] for n in names})
    kinds.assert_compiled_equals_loop(make, *sequences(kind), MASKS[mask], training)


UNBIASED = LayerNormalization(epsilon=0.1, epsilon_placement="outside", ddof=1)
SLOTS = {
    "one slot": (LSTM, {"recurrent_norm": LayerNormalization(scale=False)}),
    "mixed": (LSTM, {"kernel_norm": timestep(), "recurrent_norm": LayerNormalization()}),
    "one frozen": (LSTM, {"recurrent_norm": timestep(trainable=False), "state_norm": timestep()}),
    "no gain": (LSTM, timestep(center=False, scale=False, momentum=None)),
    "other deviation": (LSTM, UNBIASED),
    "GRU groups": (GRU, {"kernel_candidate_norm": timestep(), "recurrent_norm": timestep()}),
    "GRU candidate": (
        GRU,
        {"kernel_candidate_norm": UNBIASED, "recurrent_candidate_norm": timestep()},
    ),
}


@pytest.mark.parametrize(("kind", "norm"), SLOTS.values(), ids=SLOTS)
def test_norms_in_single_slots_match_the_loop(kind, norm):
    """The masks of both kinds of dropout differ for each gate of a GRU."""
    options = {"dropout": 0.3, "recurrent_dropout": 0.3, "seed": 3} if kind is GRU else {}
    kinds.assert_compiled_equals_loop(maker(kind, norm, **options), *sequences(kind), MASK)


def test_gathered_outputs_have_gradients():
    """tf.gather has a sparse gradient."""

    def gathered(layer, x):
        def gradient(x):
            with tf.GradientTape() as tape:
                y = layer(x, training=True)[0]
                loss = tf.reduce_sum(tf.sin(tf.gather(y, [0, 2])))
            return tape.gradient(loss, [v.value for v in layer.trainable_variables])

        return kinds.in_graph_if_compiled(layer, gradient)(x)

    kinds.assert_compiled_equals_loop(maker(SIMPLE_RNN), kinds.cast(kinds.inputs()), run=gathered)


# Sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("norm", "masked"), [("layer", False), ("timestep", True)])
def test_dynamic_sizes_match_the_loop(norm, masked):
    """The compiled path pads most sizes; results, gradients and statistics do not change."""

    def draw_mask(batch, time):
        return np.random.default_rng([batch, time]).random((batch, time)) < 0.5

    def run(layer):
        train = kinds.in_graph_if_compiled(
            layer,
            lambda x, mask: kinds.train(layer, x, mask=mask if masked else None),
            input_signature=[
                tf.TensorSpec([None, None, FEATURES], "float64"),
                tf.TensorSpec([None, None], "bool"),
            ],
        )
        return [train(kinds.cast(kinds.inputs(*size)), draw_mask(*size)) for size in SIZES]

    kinds.assert_compiled_equals_loop(maker(SIMPLE_RNN, NORMS[norm]), run=run)


# Precision --------------------------------------------------------------------------------------


def test_gradients_of_an_ill_conditioned_kernel_are_as_precise_as_the_loop():
    """The products W W^T square the condition number of W, which is 1e3 here."""

    def gradients(compiled, dtype):
        layer = maker(LSTM, LayerNormalization(epsilon=1e-5), dtype=dtype)(compiled=compiled)
        for weight in (layer.cell.kernel, layer.cell.recurrent_kernel):
            u, s, v = np.linalg.svd(np.asarray(weight, "float64"), full_matrices=False)
            weight.assign(u * np.geomspace(1.0, 1e-3, len(s)) @ v)
        found = kinds.train(layer, tf.cast(kinds.inputs(), dtype))[1]
        return [np.asarray(g, "float64") for g in found]

    exact = gradients(False, "float64")

    def error(found):
        return max(np.abs(g - e).max() / np.abs(e).max() for g, e in zip(found, exact, strict=True))

    of_loop = error(gradients(False, "float32"))
    assert error(gradients(True, "float32")) < max(1e-4, 10 * of_loop)


# Models -----------------------------------------------------------------------------------------


def fitted_weights(compiled, **options):
    """Train a model with a mask for one batch, and return its weights."""
    keras.utils.set_random_seed(0)
    layer = SIMPLE_RNN.preset("BatchNorm")(4, max_timesteps=ROWS, compiled=compiled)
    model = keras.Sequential([keras.layers.Embedding(7, 3, mask_zero=True), layer])
    model.compile("sgd", "mse", **options)
    x = np.random.default_rng(0).integers(0, 7, (4, TIME))
    model.fit(x, x[:, :1] / 7, batch_size=4, verbose=0, shuffle=False)
    return model.get_weights()


@pytest.mark.slow
def test_fit_in_a_compiled_step_matches_the_loop():
    found, expected = (
        fitted_weights("auto", jit_compile=True),
        fitted_weights(False, run_eagerly=True),
    )
    kinds.assert_close(found, expected, 1e-4)


def test_stateless_call_returns_the_updated_statistics():
    x = tf.constant(kinds.inputs())
    layer, other = (maker(SIMPLE_RNN, timestep())() for _ in range(2))

    @tf.function(autograph=False)
    def call(x):
        trainable = [v.value for v in layer.trainable_variables]
        rest = [v.value for v in layer.non_trainable_variables]
        return layer.stateless_call(trainable, rest, x, training=True)

    before = kinds.statistics(layer)
    _, after = call(x)
    kinds.assert_close(kinds.statistics(layer), before, 0)
    other(x, training=True)
    names = [v.path for v in layer.non_trainable_variables]
    after = [value for value, name in zip(after, names, strict=True) if "seed" not in name]
    kinds.assert_close(after, kinds.statistics(other))
