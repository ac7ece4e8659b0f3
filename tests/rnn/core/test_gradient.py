"""Compare the custom gradient with the loop, which TensorFlow differentiates.

tests/rnn/test_lstm.py and its neighbors compare each layer with the equations of the papers.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import LayerNormalization, RMSNormalization, TimestepBatchNormalization
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, GRU, KINDS, LSTM, MASK, SIMPLE_RNN, TIME

ROWS = TIME - 1  # the last two timesteps share a row of statistics
ONE_ALIVE = MASK & np.array([[1], [0], [0], [1], [1]], bool)  # step 1 has one alive sequence
LAYER_NORM = LayerNormalization(epsilon=1e-3)
SIZES = [(2, 1), (17, 7), (5, 8), (2, 9), (17, 17)]  # test_xla.py has the batch of 1


def timestep(**options):
    return TimestepBatchNormalization(ROWS, **{"momentum": 0.7, **options})


NORMS = {"layer": LAYER_NORM, "rms": RMSNormalization(), "timestep": timestep()}
MASKS = {**kinds.MASKS, "one alive": ONE_ALIVE}


def alive(batch, time):
    """A random mask; about half of its values are False."""
    return np.random.default_rng([batch, time]).random((batch, time)) < 0.5


def maker(kind, norm=LAYER_NORM, trainable=True, **options):
    """Return a function that builds a layer whose first two timesteps have trained statistics."""

    norm = NORMS[norm] if isinstance(norm, str) else norm

    def make(**compiled):
        layer = kinds.build(kind, norm, **options, **compiled)
        kinds.randomize_statistics(layer, reached=2)
        layer.trainable = trainable
        return layer

    return make


def sequences(kind, **sizes):
    """Inputs and initial states."""
    x, states = kinds.inputs(**sizes), kinds.initial_states(kind, **sizes)
    return kinds.cast(x), kinds.cast(states)


# Results, gradients of inputs, states and weights, and moving statistics -------------------------


@pytest.mark.parametrize(
    ("kind", "norm", "mask"),
    [
        *((kind, norm, "masked") for kind in KINDS for norm in ("layer", "timestep")),
        (GRU, "rms", "masked"),
        (SIMPLE_RNN, "rms", "unmasked"),
        (LSTM, "timestep", "one alive"),
    ],
    ids=str,
)
def test_masks_and_initial_states_match_the_loop(kind, norm, mask):
    kinds.assert_compiled_equals_loop(maker(kind, norm), *sequences(kind), MASKS[mask])


@pytest.mark.parametrize(
    ("kind", "norm", "options"),
    [
        (LSTM, "timestep", {"go_backwards": True}),
        (GRU, "layer", {"go_backwards": True}),
        (GRU, "timestep", {"return_sequences": False}),
        (SIMPLE_RNN, "layer", {"return_sequences": False}),
        (LSTM, "layer", {"zero_output_for_mask": True, "use_bias": False}),
        (SIMPLE_RNN, "timestep", {"zero_output_for_mask": True, "use_bias": False}),
    ],
    ids=str,
)
def test_options_match_the_loop(kind, norm, options):
    kinds.assert_compiled_equals_loop(maker(kind, norm, **options), *sequences(kind), MASK)


@pytest.mark.parametrize(
    ("kind", "norm"), [*((kind, "layer") for kind in KINDS), (GRU, "timestep")], ids=str
)
def test_dropout_matches_the_loop(kind, norm):
    options = {"dropout": 0.3, "recurrent_dropout": 0.3, "seed": 3}
    kinds.assert_compiled_equals_loop(maker(kind, norm, **options), *sequences(kind))


@pytest.mark.parametrize("name", ["dropout", "recurrent_dropout"])
def test_a_single_kind_of_dropout_matches_the_loop(name):
    options = {name: 0.3, "seed": 3}
    kinds.assert_compiled_equals_loop(maker(GRU, **options), *sequences(GRU))


@pytest.mark.parametrize(
    ("kind", "norm"),
    [
        (LSTM, {"recurrent_norm": LayerNormalization(scale=False)}),
        (LSTM, {"kernel_norm": timestep(), "recurrent_norm": LayerNormalization()}),
        (LSTM, {"recurrent_norm": timestep(trainable=False), "state_norm": timestep()}),
        (LSTM, timestep(center=False, scale=False, momentum=None)),
        (LSTM, timestep(unbiased_variance=True)),
        (GRU, {"kernel_candidate_norm": timestep(), "recurrent_norm": timestep()}),
        (GRU, {"kernel_candidate_norm": LAYER_NORM, "recurrent_candidate_norm": timestep()}),
    ],
    ids=["one slot", "mixed", "one frozen", "no gain", "unbiased", "GRU groups", "GRU candidate"],
)
def test_norms_in_single_slots_match_the_loop(kind, norm):
    kinds.assert_compiled_equals_loop(maker(kind, norm), *sequences(kind), MASK)


@pytest.mark.parametrize(
    ("kind", "norm", "mask"),
    [
        (LSTM, "layer", "masked"),
        (GRU, "timestep", "masked"),
        (LSTM, "timestep", "unmasked"),
        (SIMPLE_RNN, "layer", "unmasked"),
    ],
    ids=str,
)
def test_inference_matches_the_loop(kind, norm, mask):
    args = *sequences(kind), MASKS[mask]
    kinds.assert_compiled_equals_loop(maker(kind, norm), *args, training=False)


def test_frozen_statistics_are_not_updated():
    make = maker(LSTM, timestep(), trainable=False)
    layer = kinds.assert_compiled_equals_loop(make, *sequences(LSTM))
    kinds.assert_close(kinds.statistics(layer), kinds.statistics(make()), 0)


def test_one_sequence_uses_the_moving_statistics_without_an_update():
    make = maker(LSTM, timestep())
    layer = kinds.assert_compiled_equals_loop(make, *sequences(LSTM, batch=1))
    kinds.assert_close(kinds.statistics(layer), kinds.statistics(make()), 0)


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

    def run(layer):
        open_sizes = [
            tf.TensorSpec([None, None, FEATURES], "float64"),
            tf.TensorSpec([None, None], "bool"),
        ]
        train = kinds.in_graph_if_compiled(
            layer,
            lambda x, mask: kinds.train(layer, x, mask=mask if masked else None),
            input_signature=open_sizes,
        )
        return [train(kinds.cast(kinds.inputs(*size)), alive(*size)) for size in SIZES]

    kinds.assert_compiled_equals_loop(maker(SIMPLE_RNN, norm), run=run)


@pytest.mark.parametrize(("norm", "size"), [("layer", (5, 9)), ("timestep", (1, 1))], ids=str)
def test_static_sizes_match_the_loop(norm, size):
    """The custom gradient runs in a graph, and the loop runs eagerly."""

    def run(layer, x):
        return kinds.in_graph_if_compiled(layer, lambda x: kinds.train(layer, x))(x)

    kinds.assert_compiled_equals_loop(
        maker(SIMPLE_RNN, norm), tf.constant(kinds.inputs(*size)), run=run
    )


# Dtypes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "dtype", "atol"),
    [
        (LAYER_NORM, "float32", 1e-5),
        (timestep(), "float32", 1e-4),
        (LAYER_NORM, "mixed_bfloat16", 0.1),
        (LAYER_NORM, "mixed_float16", 1e-2),
    ],
    ids=["layer, float32", "timestep, float32", "bfloat16", "float16"],
)
def test_lower_precision_is_close_to_the_loop(norm, dtype, atol):
    found = []
    for compiled in (False, True):
        layer = maker(LSTM, norm, dtype=dtype)(compiled=compiled)
        results = kinds.train(layer, tf.cast(kinds.inputs(), "float32"), mask=MASK)
        found.append(tf.nest.flatten(results))
    for loop, by_hand in zip(*found, strict=True):
        assert by_hand.dtype == loop.dtype
        loop, by_hand = (np.asarray(r, "float64") for r in (loop, by_hand))
        assert np.abs(by_hand - loop).max() < atol * (1.0 + np.abs(loop).max())


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


def fitted_weights(compiled, samples, **options):
    """Train a model with a mask for one epoch of batches of 4, and return its weights."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.layers.Embedding(7, 3, mask_zero=True),
            SIMPLE_RNN.preset("BatchNorm")(4, max_timesteps=ROWS, compiled=compiled),
        ]
    )
    model.compile("sgd", "mse", **options)
    x = np.random.default_rng(0).integers(0, 7, (samples, TIME))
    model.fit(x, x[:, :1] / 7, batch_size=4, verbose=0, shuffle=False)
    return model.get_weights()


@pytest.mark.parametrize(("samples", "jit_compile"), [(6, False), (4, True)])
def test_fit_matches_the_loop(samples, jit_compile):
    """With 6 samples the last batch is smaller than the others."""
    found = fitted_weights("auto", samples, jit_compile=jit_compile)
    kinds.assert_close(found, fitted_weights(False, samples, run_eagerly=True), 1e-4)


def test_stateful_layers_match_the_loop():
    x = kinds.inputs()

    def run(layer):
        layer.build(x.shape)
        kinds.randomize(layer)
        return [layer(x, training=True) for _ in range(2)]

    kinds.assert_compiled_equals_loop(
        lambda **compiled: GRU.layer(4, LAYER_NORM, stateful=True, dtype="float64", **compiled),
        run=run,
    )


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
