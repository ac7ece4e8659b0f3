"""Models without a single-step model, each with the reason."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import StreamingError
from keras_norm.export.model.find_step import find_step, reads_single_timesteps
from keras_norm.export.model.judge import judge_for_export
from tests.export import models
from tests.rnn import kinds

TIME = 6


def one_layer(layer, time=None):
    model = models.of(layer, (time, 3))
    kinds.randomize(model)
    return model


class Stateless(keras.layers.SimpleRNNCell):
    def get_initial_state(self, batch_size=None):
        raise TypeError("no batch size is enough")


class Infinite(keras.layers.GRUCell):
    def get_initial_state(self, batch_size=None):
        return [keras.ops.full((batch_size, self.units), -np.inf)]


class OfStaticLength(keras.layers.Layer):
    """Refuses other lengths than `TIME`."""

    def call(self, x):
        if x.shape[1] != TIME:
            raise ValueError(f"there must be {TIME} timesteps")
        return x


def pooled(x):
    x = keras.layers.SimpleRNN(4, return_sequences=True)(x)
    return keras.layers.GlobalAveragePooling1D()(x)


def twice(x):
    layer = keras_norm.LayerNormSimpleRNN(3, return_sequences=True)
    return layer(layer(x))


def from_a_state(x):
    state = keras.layers.Dense(4)(x[:, 0])
    return keras_norm.LayerNormSimpleRNN(4)(x, initial_state=[state])


def after(layer):
    """Return a function of x that applies `layer` and a recurrence."""
    return lambda x: keras.layers.SimpleRNN(4)(layer(x))


def before(layer):
    """Return a function of x that applies a recurrence and `layer`."""
    return lambda x: layer(keras.layers.SimpleRNN(3, return_sequences=True)(x))


SHIFT = keras.Sequential([keras.layers.ZeroPadding1D((20, 0)), keras.layers.Cropping1D((0, 20))])
# Name -> (number of timesteps, layers, message).
REFUSED = {
    "pooling": (None, pooled, "combines several timesteps"),
    "two calls": (None, twice, "called twice"),
    "state": (None, from_a_state, r"^layer .* takes an initial_state, but a single"),
    "Bidirectional": (
        None,
        keras.layers.Bidirectional(keras_norm.LayerNormSimpleRNN(4)),
        "runs backward",
    ),
    "short input": (None, after(keras.layers.Conv1D(2, 3)), "does not run on one timestep"),
    "no recurrence": (None, keras.layers.Dense(2), "no recurrent layer"),
    "infinite": (None, keras.layers.RNN(Infinite(4)), "has an initial state that is NaN"),
    # Layers that read more timesteps than the test inputs have.
    "convolution": (
        None,
        after(keras.layers.Conv1D(4, 2, padding="causal", dilation_rate=20)),
        r"\(1, 300, 3\).*combines several timesteps",
    ),
    "slice": (None, after(lambda x: x[:, -20:]), r"\(1, 300, 3\).*combines several timesteps"),
    "nested": (None, after(SHIFT), r"\(1, 300, 3\).*combines several timesteps"),
    # Models of static length.
    "reshape": (TIME, before(keras.layers.Reshape((3 * TIME,))), "does not run on one timestep"),
    "length": (TIME, before(OfStaticLength()), "another number of timesteps: there must be 6"),
    "mean": (TIME, before(lambda x: keras.ops.mean(x, axis=1)), "combines several timesteps"),
    "half time": (
        TIME,
        after(keras.layers.Conv1D(3, 2, strides=2)),
        "has as many timesteps as the first recurrent",
    ),
}


@pytest.mark.parametrize(("time", "layers", "message"), REFUSED.values(), ids=REFUSED)
def test_a_model_without_a_step_is_refused_with_the_reason(time, layers, message):
    with pytest.raises(StreamingError, match=message):
        find_step(one_layer(layers, time), True)


def test_every_norm_but_one_says_that_it_reads_single_timesteps():
    """A model of such layers is not compared on a long sequence."""

    def reads(make):
        return reads_single_timesteps(one_layer(make()))

    for layer in (keras.layers, keras_norm):
        assert reads(layer.LayerNormalization)
        assert reads(layer.RMSNormalization)
        assert reads(layer.BatchNormalization)
    assert reads(keras_norm.VarianceNormalization)
    assert reads(lambda: keras.Sequential([keras_norm.LayerNormalization()]))
    assert not reads(lambda: keras_norm.TimestepBatchNormalization(3))
    assert not reads(lambda: keras.layers.Conv1D(3, 2))


def test_a_decoder_is_refused_for_its_initial_state():
    source, target = (keras.Input((None, 3), name=name) for name in ("source", "target"))
    state = keras.layers.GRU(2, name="encoder")(source)
    outputs = keras.layers.GRU(2, name="decoder")(target, initial_state=state)
    model = keras.Model([source, target], outputs)
    normal = np.random.default_rng(0).normal
    judge = judge_for_export(
        model, {"source": normal(size=(3, 8, 3)), "target": normal(size=(3, 12, 3))}
    )
    with pytest.raises(StreamingError, match='layer "decoder" takes an initial_state'):
        find_step(model, True, judge)


def test_a_cell_without_an_initial_state_is_exported_without_a_step():
    model = one_layer(lambda x: keras.layers.RNN(Stateless(2))(x, initial_state=x[:, 0, :2]))
    assert find_step(model) is None
    with pytest.raises(StreamingError, match="before the first timestep: no batch size is enough"):
        find_step(model, True)


def test_step_must_be_none_true_or_false():
    with pytest.raises(ValueError, match="must be None, True or False"):
        find_step(one_layer(keras.layers.SimpleRNN(2)), "yes")


@pytest.mark.parametrize(
    ("time", "layers", "reason"),
    [
        (TIME, keras.layers.SimpleRNN(2), "the number of timesteps is static: pass step=True"),
        (None, pooled, "combines several timesteps"),
    ],
)
def test_a_model_has_no_step_by_default_and_the_reason_is_logged(time, layers, reason, caplog):
    with caplog.at_level("INFO", "keras_norm.export"):
        assert find_step(one_layer(layers, time)) is None
    assert reason in caplog.text
