"""Calls that run the compiled path, and calls that run the loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.rnn import compiled as compiled_path
from keras_norm.rnn import loop
from keras_norm.rnn.random_masks import NO_MASKS
from tests.check_layer import assert_refused
from tests.rnn import kinds

COMPILED, LOOP = "compiled path", "loop"


@pytest.fixture
def ran(monkeypatch):
    """Record the path of every call."""
    calls = []

    def record(module, name):
        run = module.run

        def recorded(*args, **kwargs):
            calls.append(name)
            return run(*args, **kwargs)

        monkeypatch.setattr(module, "run", recorded)

    record(compiled_path, COMPILED)
    record(loop, LOOP)
    return calls


def draw(batch=3, time=4):
    return tf.constant(kinds.draw(batch, time, 2), "float32")


def layer_of(cls=keras_norm.LayerNormSimpleRNN, **options):
    return cls(3, **options)


@pytest.mark.parametrize(
    ("compiled", "expected"),
    [
        ("auto", [COMPILED, LOOP, LOOP]),
        (True, [COMPILED, COMPILED, COMPILED]),
        (False, [LOOP, LOOP, LOOP]),
    ],
    ids=str,
)
def test_compiled_selects_the_path_in_training_and_inference(ran, compiled, expected):
    layer = layer_of(compiled=compiled)
    layer(draw(), training=True)
    layer(draw(), training=False)
    layer(draw())
    assert ran == expected


def test_fit_trains_on_the_compiled_path_and_validates_on_the_loop(ran):
    model = keras.Sequential([keras.Input((4, 2)), layer_of()])
    model.compile("sgd", "mse")
    x, y = draw(), np.zeros((3, 3), "float32")
    ran.clear()  # the path of the symbolic call
    model.fit(x, y, validation_data=(x, y), verbose=0)
    assert set(ran) == {COMPILED, LOOP}
    assert ran[0] == COMPILED
    assert COMPILED not in ran[ran.index(LOOP) :]


def test_callers_compiled_by_xla_and_strategies_select_the_same_path(ran):
    layer = layer_of()
    layer.build((None, 4, 2))
    for training in (True, False):
        tf.function(lambda x, t=training: layer(x, training=t), jit_compile=True, autograph=False)(
            draw()
        )
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        layer_of()(draw(), training=True)
    assert ran == [COMPILED, LOOP, COMPILED]


def test_tf_debugging_checks_select_the_loop(ran):
    tf.debugging.enable_check_numerics()
    try:
        layer_of()(draw(), training=True)
        with pytest.raises(ValueError, match=r"tf.debugging"):
            layer_of(compiled=True)(draw())
    finally:
        tf.debugging.disable_check_numerics()
    assert ran == [LOOP]


def test_other_backends_run_the_loop(ran, monkeypatch):
    layer = layer_of()
    layer.build((None, 4, 2))
    monkeypatch.setattr(keras.backend, "backend", lambda: "another")
    layer.unroll = True  # an unrolled loop needs no scan of the backend
    layer(draw(), training=True)
    assert ran == [LOOP]


def test_gradients_through_an_outer_graph_loop_match():
    def gradient(layer, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tf.range(3):
                y = layer(y, mask=tf.ones([3, 4], "bool"), training=True)
            loss = tf.reduce_sum(y**2)
        return tape.gradient(loss, x)

    found = []
    for compiled in ("auto", False):
        layer = keras_norm.LayerNormSimpleRNN(2, return_sequences=True, compiled=compiled)
        layer.build((None, None, 2))
        kinds.randomize(layer)
        run = tf.function(gradient) if compiled else gradient
        found.append(run(layer, draw()))
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-5)


# Unsupported layers -----------------------------------------------------------------------------


class SameGRU(keras_norm.NormGRU):
    """A subclass without an override."""


LAYER_NORM, SIMPLE_RNN = keras_norm.LayerNormalization(), keras_norm.NormSimpleRNN
LSTM = keras_norm.NormLSTM
UNSUPPORTED = {
    "unrolled": (SIMPLE_RNN, {"norm": LAYER_NORM, "unroll": True}),
    "relu": (LSTM, {"activation": "relu"}),
    "hard sigmoid": (LSTM, {"recurrent_activation": "hard_sigmoid"}),
    "carry": (LSTM, {"norm": LAYER_NORM, "normalize_carry": True}),
    "reset before": (keras_norm.NormGRU, {"reset_after": False}),
    "variance": (SIMPLE_RNN, {"norm": keras_norm.VarianceNormalization()}),
    "epsilon of 0": (LSTM, {"norm": {"state_norm": keras_norm.RMSNormalization(epsilon=0.0)}}),
    "layer of Keras": (SIMPLE_RNN, {"norm": keras.layers.LayerNormalization()}),
    "batch norm": (SIMPLE_RNN, {"norm": keras_norm.BatchNormalization()}),
    "batch norm of c": (LSTM, {"norm": {"state_norm": keras_norm.BatchNormalization()}}),
}


@pytest.mark.parametrize(("cls", "options"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_unsupported_layers_run_the_loop_and_compiled_true_raises(ran, cls, options):
    layer_of(cls, **options)(draw(), training=True)
    assert ran == [LOOP]
    layer = layer_of(cls, compiled=True, name="mine", **options)
    for training in (True, False):
        assert_refused(
            lambda t=training: layer(draw(), training=t),
            "compiled=True",
            f"{cls.__name__} 'mine'",
            "Leave compiled",
        )


@pytest.mark.parametrize("method", compiled_path.STEP_METHODS)
def test_a_subclass_that_overrides_a_method_of_the_step_runs_the_loop(method):
    base = keras_norm.NormLSTMCell
    cell = type("Mine", (base,), {method: getattr(base, method)})(3)
    cell.build((None, 2))
    assert compiled_path.recurrence_of(cell, True, NO_MASKS) is None


def test_a_subclass_without_an_override_runs_the_compiled_path(ran):
    layer_of(SameGRU)(draw(), training=True)
    assert ran == [COMPILED]


# The argument -----------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", ["yes", None, 2], ids=str)
def test_other_values_of_compiled_raise(compiled):
    assert_refused(lambda: layer_of(compiled=compiled), "compiled must be", repr(compiled))


def test_compiled_true_raises_on_other_backends(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "numpy")
    assert_refused(lambda: layer_of(compiled=True), "compiled=True", "numpy", "auto")
    assert layer_of().compiled == "auto"


# Reproducible results ---------------------------------------------------------------------------


def trained_model():
    keras.utils.set_random_seed(1)
    layer = layer_of(dropout=0.2, recurrent_dropout=0.2, compiled=True)
    model = keras.Sequential([keras.Input((4, 2)), layer])
    model.compile("sgd", "mse", jit_compile=False)  # XLA compiles the recurrence alone
    model.fit(draw(8), np.ones((8, 3)), batch_size=4, epochs=2, verbose=0)
    return model


@pytest.mark.usefixtures("xla")
def test_equal_seeds_give_equal_weights_and_equal_inputs_equal_predictions():
    first, second = trained_model(), trained_model()
    kinds.assert_close(first.get_weights(), second.get_weights(), 0)
    expected = first.predict(draw(10), batch_size=4, verbose=0)
    first.predict(draw(2), verbose=0)
    np.testing.assert_array_equal(first.predict(draw(10), batch_size=4, verbose=0), expected)
