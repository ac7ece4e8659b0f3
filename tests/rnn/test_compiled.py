"""Which layers train by the gradient by hand, and which run the loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.ops.scan import exported_loops
from keras_norm.rnn import loop
from keras_norm.rnn.gradient import of_cell
from keras_norm.rnn.norm_rnn import NormRNN
from tests.check_layer import assert_refused
from tests.rnn import kinds

HAND, LOOP = "gradient by hand", "loop"


@pytest.fixture
def ran(monkeypatch):
    """What ran, call by call."""
    calls = []

    def record(module, name):
        run = module.run

        def recorded(*args, **kwargs):
            calls.append(name)
            return run(*args, **kwargs)

        monkeypatch.setattr(module, "run", recorded)

    record(of_cell, HAND)
    record(loop, LOOP)
    return calls


def draw(batch=3, time=4):
    return tf.constant(kinds.draw(batch, time, 2), "float32")


def layer_of(cls=keras_norm.LayerNormSimpleRNN, **options):
    return cls(3, **options)


@pytest.mark.parametrize(
    ("compiled", "expected"),
    [("auto", [HAND, LOOP, LOOP]), (True, [HAND, HAND, HAND]), (False, [LOOP, LOOP, LOOP])],
    ids=str,
)
def test_training_inference_and_plain_calls(ran, compiled, expected):
    layer = layer_of(compiled=compiled)
    layer(draw(), training=True)
    layer(draw(), training=False)
    layer(draw())
    assert ran == expected


def test_a_fit_trains_by_hand_and_validates_and_predicts_by_the_loop(ran):
    model = keras.Sequential([keras.Input((4, 2)), layer_of()])
    model.compile("sgd", "mse")
    x, y = draw(), np.zeros((3, 3), "float32")
    ran.clear()  # what the symbolic call ran
    model.fit(x, y, validation_data=(x, y), verbose=0)
    model.predict(x, verbose=0)
    assert set(ran) == {HAND, LOOP}
    assert ran[0] == HAND
    assert HAND not in ran[ran.index(LOOP) :]


@pytest.mark.parametrize("training", [True, False])
def test_callers_that_xla_compiles_choose_the_same(ran, training):
    layer = layer_of()
    layer.build((None, 4, 2))
    run = tf.function(lambda x: layer(x, training=training), jit_compile=True, autograph=False)
    run(draw())
    assert ran == [HAND if training else LOOP]


def test_a_strategy_trains_by_hand(ran):
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        layer_of()(draw(), training=True)
    assert ran == [HAND]


@pytest.mark.parametrize("compiled", ["auto", True])
@pytest.mark.parametrize("target", ["saved_model", "tflite", "onnx"])
def test_exports_have_the_loop(ran, compiled, target):
    layer = layer_of(compiled=compiled)
    with exported_loops(target):
        layer(draw())
        layer(draw(), training=True)
    assert ran == [LOOP, LOOP]


def test_the_exporter_of_keras_writes_no_xla(tmp_path):
    model = keras.Sequential([keras.Input((None, 2)), layer_of()])
    model(draw(), training=True)
    model.export(str(tmp_path / "model"), verbose=False)
    assert b"XlaMustCompile" not in (tmp_path / "model" / "saved_model.pb").read_bytes()


def test_checks_of_every_operation_see_the_loop(ran):
    tf.debugging.enable_check_numerics()
    try:
        layer_of()(draw(), training=True)
        with pytest.raises(ValueError, match=r"tf.debugging"):
            layer_of(compiled=True)(draw())
    finally:
        tf.debugging.disable_check_numerics()
    assert ran == [LOOP]


def test_other_backends_have_the_loop(ran, monkeypatch):
    layer = layer_of()
    layer.build((None, 4, 2))
    monkeypatch.setattr(keras.backend, "backend", lambda: "another")
    layer.unroll = True  # needs no scan of the backend's
    layer(draw(), training=True)
    assert ran == [LOOP]


def test_a_loop_of_the_graph_around_a_layer():
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
        found.append(tf.function(gradient)(layer, draw()))
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-5)


# What is not covered ----------------------------------------------------------------------------


class Halved(keras_norm.NormGRUCell):
    def step(self, *args):
        return [0.5 * h for h in super().step(*args)]


class HalvedGRU(keras_norm.NormGRU):
    cell_class = Halved


class SameGRU(keras_norm.NormGRU):
    """A subclass that computes what its base does."""


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (layer_of(unroll=True), LOOP),
        (layer_of(HalvedGRU), LOOP),
        (layer_of(keras_norm.NormLSTM, activation="relu"), LOOP),
        (layer_of(SameGRU), HAND),
    ],
    ids=["unrolled", "a step of its own", "relu", "a subclass without one"],
)
def test_what_is_not_covered_has_the_loop(ran, layer, expected):
    layer(draw(), training=True)
    assert ran == [expected]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "layer",
    [
        layer_of(unroll=True, compiled=True, name="mine"),
        layer_of(HalvedGRU, compiled=True, name="mine"),
        layer_of(keras_norm.NormLSTM, activation="relu", compiled=True, name="mine"),
    ],
    ids=["unrolled", "a step of its own", "relu"],
)
def test_what_is_not_covered_cannot_be_compiled(layer, training):
    assert_refused(
        lambda: layer(draw(), training=training), "compiled=True", "'mine'", "leave compiled at"
    )


# The argument -----------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", ["auto", True, False])
def test_the_argument_is_kept(compiled):
    layer = layer_of(compiled=compiled)
    assert layer.compiled == compiled
    assert type(layer).from_config(layer.get_config()).compiled == compiled
    assert keras.layers.Bidirectional(layer).backward_layer.compiled == compiled


@pytest.mark.parametrize("compiled", ["auto", True, False])
def test_a_layer_around_a_cell_keeps_the_argument(compiled):
    layer = NormRNN(keras_norm.NormSimpleRNNCell(2), compiled=compiled)
    assert NormRNN.from_config(layer.get_config()).compiled == compiled


def test_a_configuration_without_the_argument_is_auto():
    config = layer_of().get_config()
    del config["compiled"]
    assert keras_norm.LayerNormSimpleRNN.from_config(config).compiled == "auto"


@pytest.mark.parametrize("compiled", ["yes", None, 2], ids=str)
def test_other_values_are_refused(compiled):
    assert_refused(lambda: layer_of(compiled=compiled), "compiled must be", repr(compiled))


def test_true_needs_tensorflow(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    assert_refused(lambda: layer_of(compiled=True), "compiled=True", "jax", "auto")
    assert layer_of().compiled == "auto"


# The same again ---------------------------------------------------------------------------------


def trained_weights():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((4, 2)),
            keras_norm.LayerNormSimpleRNN(3, dropout=0.2, recurrent_dropout=0.2),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    model.fit(draw(10), np.ones((10, 1)), batch_size=4, epochs=2, verbose=0)
    return model.get_weights()


@pytest.mark.usefixtures("xla")
def test_equal_seeds_give_equal_weights():
    kinds.assert_close(trained_weights(), trained_weights(), 0)


@pytest.mark.usefixtures("xla")
@pytest.mark.parametrize("compiled", ["auto", True])
def test_equal_inputs_give_equal_predictions(compiled):
    model = keras.Sequential([keras.Input((None, 2)), layer_of(compiled=compiled)])
    first = model.predict(draw(10, 9), batch_size=4, verbose=0)
    model.predict(draw(2, 3), verbose=0)
    np.testing.assert_array_equal(model.predict(draw(10, 9), batch_size=4, verbose=0), first)
