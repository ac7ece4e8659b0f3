"""The fast sequence form with statistics of every timestep: against the plain form."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import BatchNormalization, LayerNormalization, TimestepBatchNormalization
from keras_norm.ops.fast import warmth
from keras_norm.rnn import fast_form
from keras_norm.rnn.forms import use_form
from tests.rnn import kinds
from tests.rnn.kinds import GRU, KINDS, LSTM, MASK, SIMPLE_RNN, TIME, UNITS

FORM = "fast"
ROWS = TIME - 1  # the last two timesteps share a row
ONE_ALIVE = MASK & np.array([[1], [0], [0], [1], [1]], bool)  # step 1 has one alive sequence


def timestep(**options):
    return TimestepBatchNormalization(ROWS, **options)


def build(kind, norm=None, **options):
    layer = kinds.build(kind, norm or timestep(momentum=0.7), **options)
    kinds.randomize_statistics(layer, reached=2)
    return layer


def spec_of(layer, training=True):
    dropout_masks = layer.cell.dropout_masks(tf.ones([2, 2]), tf.ones([2, UNITS]), training)
    return fast_form.fast_spec(layer.cell, False, training, dropout_masks, True)


def statistics(layer):
    return [w.numpy() for w in layer.non_trainable_variables if "seed" not in w.path]


def results_and_gradients(layer, x, states=None, **kwargs):
    """All results, and the gradients of a weighted sum of them."""
    sources = [x, *(states or [])]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        results = tf.nest.flatten(layer(x, initial_state=states, **kwargs))
        loss = sum(
            tf.reduce_sum(tf.cast(r, "float64") * w)
            for r, w in zip(results, kinds.loss_weights(results), strict=True)
        )
    sources += [v.value for v in layer.trainable_variables]
    return results, tape.gradient(loss, sources, unconnected_gradients="zero")


def assert_same_forms(build_layer, run, *args, atol=1e-10):
    """Both forms give the same, and leave the same statistics; args go through a graph."""
    found = []
    for form in ("plain", "fast"):
        layer = build_layer()
        with use_form(form):
            results = tf.function(lambda *a, layer=layer: run(layer, *a), autograph=False)(*args)
        found.append([results, statistics(layer)])
    kinds.assert_close(found[1], found[0], atol)
    return layer


# Outputs, final states, every gradient, moving mean and variance, and the count of updates ------


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(
    ("when", "mask"),
    [
        ("training", None),
        ("training", MASK),
        ("training", ONE_ALIVE),
        ("inference", MASK),
        ("frozen", None),
    ],
    ids=["training", "masked", "one alive", "inference, masked", "frozen"],
)
def test_equals_the_plain_form(kind, when, mask):
    def build_layer():
        layer = build(kind, timestep(unbiased_variance=True), go_backwards=mask is MASK)
        layer.trainable = when != "frozen"
        return layer

    layer = assert_same_forms(
        build_layer,
        lambda layer, x, *states: results_and_gradients(
            layer, x, list(states), mask=mask, training=when != "inference"
        ),
        *kinds.cast([kinds.inputs(), *kinds.initial_states(kind)]),
    )
    moved = [
        not np.array_equal(after, before)
        for after, before in zip(statistics(layer), statistics(build_layer()), strict=True)
    ]
    assert all(moved) if when == "training" else not any(moved)


@pytest.mark.parametrize(
    ("norm", "options"),
    [
        (timestep(center=False, scale=False, momentum=None), {"return_sequences": False}),
        (timestep(), {"dropout": 0.3, "recurrent_dropout": 0.3, "seed": 3}),
        ({"kernel_norm": timestep(), "recurrent_norm": LayerNormalization()}, {}),
        ({"recurrent_norm": timestep(trainable=False), "state_norm": timestep()}, {}),
    ],
    ids=["no gain, no bias", "dropout", "mixed slots", "one frozen slot"],
)
def test_options(norm, options):
    layer = assert_same_forms(
        lambda: build(LSTM, norm, **options),
        lambda layer, x: results_and_gradients(layer, x, mask=MASK, training=True),
        tf.constant(kinds.inputs()),
    )
    assert spec_of(layer).learning


def test_mixed_groups_of_a_gru():
    norm = {"kernel_candidate_norm": timestep(), "recurrent_norm": timestep()}
    assert_same_forms(
        lambda: build(GRU, norm),
        lambda layer, x: results_and_gradients(layer, x, mask=MASK, training=True),
        tf.constant(kinds.inputs()),
    )


def test_one_sequence_uses_and_keeps_the_moving_statistics():
    layer = assert_same_forms(
        lambda: build(LSTM),
        lambda layer, x: results_and_gradients(layer, x, training=True),
        tf.constant(kinds.inputs(batch=1)),
    )
    kinds.assert_close(statistics(layer), statistics(build(LSTM)), 0)


def test_unknown_batch_and_time():
    """The time 5 is padded to 6, which reaches neither outputs nor statistics."""
    found = []
    for form in ("plain", "fast"):
        layer = build(LSTM)
        run = tf.function(
            lambda x, layer=layer: layer(x, training=True),
            input_signature=[tf.TensorSpec([None, None, kinds.FEATURES], "float64")],
        )
        with use_form(form):
            found.append([run(kinds.inputs(time=5)), statistics(layer)])
    kinds.assert_close(*found)


def test_nan_in_masked_steps_reaches_neither_outputs_nor_statistics():
    found = []
    for filling in (0.0, np.nan):
        layer = build(LSTM)
        x = np.where(MASK[..., None], kinds.inputs(), filling)
        found.append([layer(x, mask=MASK, training=True), statistics(layer)])
    kinds.assert_close(*found)


def test_float32():
    assert_same_forms(
        lambda: build(LSTM, dtype="float32"),
        lambda layer, x: results_and_gradients(layer, x, mask=MASK, training=True),
        tf.cast(kinds.inputs(), "float32"),
        atol=1e-4,
    )


def test_compiled_with_all_around_it():
    layer = assert_same_forms(
        lambda: build(SIMPLE_RNN),
        tf.function(
            lambda layer, x: results_and_gradients(layer, x, mask=MASK, training=True),
            jit_compile=True,
            autograph=False,
        ),
        tf.constant(kinds.inputs()),
    )
    assert spec_of(layer).learning


def test_second_order_gradients():
    def run(layer, x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(tf.sin(layer(x, mask=ONE_ALIVE, training=True)[0]))
            penalty = tf.reduce_sum(tf.square(inner.gradient(loss, x)))
        weights = [v.value for v in layer.trainable_variables]
        return outer.gradient(penalty, [x, *weights], unconnected_gradients="zero")

    assert_same_forms(lambda: build(SIMPLE_RNN), run, tf.constant(kinds.inputs()), atol=1e-9)


# Where the graph chooses the form ---------------------------------------------------------------


def test_fit(monkeypatch):
    """The first batches run the plain form, the later ones the fast form."""
    monkeypatch.setattr(warmth, "HOT", 3 * TIME)

    def weights(form):
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [
                keras.layers.Embedding(7, 3, mask_zero=True),
                SIMPLE_RNN.preset("BatchNorm")(UNITS, max_timesteps=ROWS),
                keras.layers.Dense(1),
            ]
        )
        model.compile("sgd", "mse")
        x = np.random.default_rng(0).integers(0, 7, (20, TIME))
        with use_form(form):
            model.fit(x, x.sum(axis=1), batch_size=4, verbose=0, shuffle=False)
        return model.get_weights()

    kinds.assert_close(weights("auto"), weights("plain"), 1e-4)


@pytest.mark.parametrize("hot", [0, 1000])
def test_stateless_call_gives_the_statistics(monkeypatch, hot):
    monkeypatch.setattr(warmth, "HOT", hot)
    layer, x = build(LSTM), tf.constant(kinds.inputs())
    before = statistics(layer)

    @tf.function(autograph=False)
    def call(x):
        values = (
            [v.value for v in layer.trainable_variables],
            [v.value for v in layer.non_trainable_variables],
        )
        return layer.stateless_call(*values, x, training=True)

    with use_form("auto"):
        _, after = call(x)
    kinds.assert_close(statistics(layer), before, 0)
    layer(x, training=True)
    names = [v.path for v in layer.non_trainable_variables]
    after = [a for a, name in zip(after, names, strict=True) if "seed" not in name]
    kinds.assert_close(after, statistics(layer))


@pytest.mark.parametrize("norm", [BatchNormalization(), {"state_norm": BatchNormalization()}])
def test_one_statistic_for_all_timesteps_is_left_to_the_plain_form(norm):
    assert spec_of(kinds.build(LSTM, norm)) is None


def test_only_training_learns():
    layer = build(LSTM)
    assert spec_of(layer).learning == list(spec_of(layer).batch_norms)
    assert not spec_of(layer, training=False).learning
