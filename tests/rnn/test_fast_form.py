"""The fast sequence form: against the float64 oracle, and against the plain form."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import LayerNormalization, RMSNormalization, VarianceNormalization
from keras_norm.rnn.fast_form import fast_spec
from keras_norm.rnn.forms import use_form
from tests.rnn import kinds
from tests.rnn.kinds import GRU, KINDS, LSTM, MASK, UNITS

FORM = "fast"
LAYER_NORM = LayerNormalization(epsilon=1e-3)
NORMS = {
    "none": None,
    "layer": LAYER_NORM,
    "rms": RMSNormalization(),
    "recurrent only": {"recurrent_norm": LayerNormalization(scale=False)},
}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def spec_of(layer, masked=False):
    dropout_masks = layer.cell.dropout_masks(tf.ones([2, 2]), tf.ones([2, UNITS]), True)
    return fast_spec(layer.cell, masked, True, dropout_masks, layer.return_sequences)


def both_forms(run, *args):
    """What the plain form gives, and the fast one, each in a graph of its own."""
    results = []
    for form in ("plain", "fast"):
        with use_form(form):
            results.append(tf.function(run, autograph=False)(*args))
    return results


def results_and_gradients(layer, x, **kwargs):
    """All results, and the gradients of a weighted sum of them."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        results = tf.nest.flatten(layer(x, **kwargs))
        loss = sum(
            tf.reduce_sum(tf.cast(r, "float64") * w)
            for r, w in zip(results, kinds.loss_weights(results), strict=True)
        )
    weights = [v.value for v in layer.trainable_variables]
    return results, tape.gradient(loss, [x, *weights], unconnected_gradients="zero")


# Against the oracle -----------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize(
    ("norm", "mask"),
    [*((norm, MASK) for norm in NORMS.values()), (LAYER_NORM, None)],
    ids=[*NORMS, "layer, unmasked"],
)
def test_follows_the_oracle(kind, norm, mask):
    """Outputs, final states, and the gradients of every weight, of the inputs and of the states."""
    layer = kinds.build(kind, norm)
    assert spec_of(layer) is not None
    kinds.assert_follows_oracle(layer, mask)
    kinds.assert_gradients_follow_oracle(layer, mask)


# Against the plain form -------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize(
    "options",
    [
        {"go_backwards": True},
        {"return_sequences": False},
        {"zero_output_for_mask": True, "use_bias": False},
    ],
    ids=str,
)
def test_options(kind, options):
    layer = kinds.build(kind, LAYER_NORM, **options)
    states = kinds.cast(kinds.initial_states(kind))

    def run(x):
        return results_and_gradients(layer, x, initial_state=states, mask=MASK, training=True)

    plain, fast = both_forms(run, tf.constant(kinds.inputs()))
    kinds.assert_close(fast, plain)


@pytest.mark.parametrize("size", [(1, 1), (1, 3), (2, 1), (3, 7)], ids=str)
def test_sizes(size):
    layer = kinds.build(LSTM, LAYER_NORM)
    plain, fast = both_forms(
        lambda x: results_and_gradients(layer, x, training=True), tf.constant(kinds.inputs(*size))
    )
    kinds.assert_close(fast, plain)


@every_kind
@pytest.mark.parametrize(
    "options", [{"dropout": 0.3}, {"dropout": 0.3, "recurrent_dropout": 0.3}], ids=str
)
@pytest.mark.parametrize("norm", [LAYER_NORM, RMSNormalization()], ids=["layer", "rms"])
def test_dropout_drops_the_same(kind, options, norm):
    found = []
    for form in ("plain", "fast"):
        layer = kinds.build(kind, norm, seed=3, **options)
        with use_form(form):
            found.append(results_and_gradients(layer, kinds.cast(kinds.inputs()), training=True))
    kinds.assert_close(*found)
    assert spec_of(kinds.build(kind, norm, **options)) is not None


@pytest.mark.parametrize(
    ("dtype", "atol"), [("float32", 1e-5), ("mixed_bfloat16", 0.1), ("mixed_float16", 1e-2)]
)
def test_dtypes(dtype, atol):
    layer = kinds.build(LSTM, LAYER_NORM, dtype=dtype)
    plain, fast = both_forms(
        lambda x: results_and_gradients(layer, x, mask=MASK, training=True),
        tf.cast(kinds.inputs(), "float32"),
    )
    assert [r.dtype for r in fast[0]] == [r.dtype for r in plain[0]]
    for a, b in zip(tf.nest.flatten(fast), tf.nest.flatten(plain), strict=True):
        scale = 1.0 + np.abs(b.numpy().astype("float64")).max()
        assert np.abs((a - b).numpy().astype("float64")).max() < atol * scale


def test_second_order_gradients():
    layer = kinds.build(kinds.SIMPLE_RNN, LAYER_NORM)

    def run(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(tf.sin(layer(x, mask=MASK, training=True)[0]))
            penalty = tf.reduce_sum(tf.square(inner.gradient(loss, x)))
        weights = [v.value for v in layer.trainable_variables]
        return outer.gradient(penalty, [x, *weights], unconnected_gradients="zero")

    plain, fast = both_forms(run, tf.constant(kinds.inputs()))
    kinds.assert_close(fast, plain)


def test_gradients_at_inference():
    layer = kinds.build(GRU, LAYER_NORM)
    plain, fast = both_forms(
        lambda x: results_and_gradients(layer, x, training=False), tf.constant(kinds.inputs())
    )
    kinds.assert_close(fast, plain)


def test_gradients_of_an_ill_conditioned_kernel():
    """The products W W^T square its condition number, here 1e3: float32 keeps what it would."""
    errors = {}
    exact = None
    for form, dtype in (("plain", "float64"), ("plain", "float32"), ("fast", "float32")):
        layer = kinds.build(LSTM, LayerNormalization(epsilon=1e-5), dtype=dtype)
        for weight in (layer.cell.kernel, layer.cell.recurrent_kernel):
            u, s, v = np.linalg.svd(np.asarray(weight, "float64"), full_matrices=False)
            weight.assign(u * np.geomspace(1.0, 1e-3, len(s)) @ v)
        with use_form(form):
            gradients = results_and_gradients(layer, tf.cast(kinds.inputs(), dtype), training=True)[
                1
            ]
        gradients = [np.asarray(g, "float64") for g in gradients]
        exact = exact or gradients
        errors[form, dtype] = max(
            np.abs(g - e).max() / np.abs(e).max() for g, e in zip(gradients, exact, strict=True)
        )
    assert errors["fast", "float32"] < max(1e-4, 10 * errors["plain", "float32"])


@functools.cache
def fitted_weights(form, **compiled):
    """Of a model that is stacked, bidirectional and masked, after an epoch."""
    layer = GRU.preset("LayerNorm")
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.layers.Embedding(7, 3, mask_zero=True),
            # Of one configuration, so that they share their programs.
            keras.layers.Bidirectional(layer(UNITS, return_sequences=True)),
            layer(UNITS, return_sequences=True),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse", **compiled)
    x = np.random.default_rng(0).integers(0, 7, (10, 5))
    with use_form(form):
        model.fit(x, x.sum(axis=1), batch_size=4, epochs=1, verbose=0, shuffle=False)
    return model.get_weights()


@pytest.mark.parametrize("compiled", [{}, {"jit_compile": True}, {"run_eagerly": True}], ids=str)
def test_fit(compiled):
    """The last batch is smaller than the others."""
    kinds.assert_close(fitted_weights("fast", **compiled), fitted_weights("plain"), 1e-4)


def test_stateful_layers_go_on_from_their_states():
    x = kinds.inputs()
    outputs = []
    for form in ("plain", "fast"):
        layer = GRU.layer(UNITS, norm=LAYER_NORM, stateful=True, dtype="float64")
        layer.build(x.shape)
        kinds.randomize(layer)
        with use_form(form):
            outputs.append([layer(x), layer(x)])
    kinds.assert_close(*outputs)


# What it covers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "norm", "options"),
    [
        (LSTM, None, {"activation": "relu"}),
        (LSTM, None, {"recurrent_activation": "hard_sigmoid"}),
        (LSTM, LAYER_NORM, {"norm_form": "joint"}),
        (LSTM, LAYER_NORM, {"normalize_carry": True}),
        (LSTM, VarianceNormalization(), {}),
        (LSTM, LayerNormalization(ddof=1), {}),
        (LSTM, LayerNormalization(epsilon_placement="outside"), {}),
        (LSTM, keras.layers.LayerNormalization(), {}),
        (GRU, None, {"reset_after": False}),
    ],
    ids=str,
)
def test_the_plain_form_computes_the_rest(kind, norm, options):
    layer = kinds.build(kind, norm, **options)
    assert spec_of(layer) is None
    plain, fast = both_forms(
        lambda x: results_and_gradients(layer, x, training=True), tf.constant(kinds.inputs())
    )
    kinds.assert_close(fast, plain)
