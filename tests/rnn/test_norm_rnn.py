"""Features of all recurrent layers: masks, directions, states, dropout, wrappers, models."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from tests.check_layer import assert_refused
from tests.rnn import kinds
from tests.rnn.kinds import BATCH, FEATURES, GRU, KINDS, LSTM, MASK, SIMPLE_RNN, TIME, UNITS

NORMS = {name: kinds.NORMS[name] for name in ("none", "layer", "timestep", "batch")}
LAYER_NORM = NORMS["layer"]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def build(kind, norm, **kwargs):
    """Build a layer with random weights and moving statistics."""
    layer = kinds.build(kind, NORMS.get(norm, norm) if isinstance(norm, str) else norm, **kwargs)
    kinds.randomize_statistics(layer)
    return layer


def graph_of(function, *shapes, dtype="float64"):
    """Trace a function of tensors with these shapes; a pair is a shape with its dtype."""
    pairs = [shape if isinstance(shape[-1], str) else (shape, dtype) for shape in shapes]
    return tf.function(function, [tf.TensorSpec(*pair) for pair in pairs], autograph=False)


# Masks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "norm", "training"),
    [
        (LSTM, "layer", True),
        (LSTM, "layer", False),
        (GRU, "timestep", True),
        (SIMPLE_RNN, "batch", True),
    ],
    ids=str,
)
def test_invalid_numbers_at_masked_timesteps_change_no_results_gradients_or_statistics(
    kind, norm, training
):
    x, found = kinds.inputs().astype("float32"), []
    garbage = np.resize(np.float32([np.nan, np.inf, 1e38]), x.shape)
    for fill in (garbage, np.float32(0)):
        layer = build(kind, norm, dtype="float32")
        filled = tf.constant(np.where(MASK[..., None], x, fill))
        results = kinds.train(layer, filled, mask=MASK, training=training)
        found.append([results, kinds.statistics(layer)])
    kinds.assert_close(*found, 1e-5)


def test_masks_of_other_dtypes_or_with_a_last_dimension_of_one_equal_bool_masks():
    layer, x = build(LSTM, "layer"), kinds.inputs()
    for mask in (MASK.astype("int32"), MASK.astype("float32"), MASK[..., None]):
        kinds.assert_close(layer(x, mask=mask), layer(x, mask=MASK), 0)


@pytest.mark.parametrize(("norm", "training"), [("layer", False), ("timestep", True)])
def test_one_row_of_a_mask_or_of_states_applies_to_every_sequence(norm, training):
    """The gradient of a row of states is the sum over the sequences. Sizes may be dynamic."""
    x, mask = kinds.cast(kinds.inputs(batch=20)), MASK[3:4]
    rows = [mask, *(state[:1] for state in kinds.initial_states(LSTM))]  # two states

    def train(mask, *states):
        return kinds.train(build(LSTM, norm), x, kinds.cast(states), mask, training)

    expected, (dx, *d_repeated) = train(*(np.repeat(row, 20, axis=0) for row in rows))
    results, gradients = train(*rows)
    d_states = [tf.reduce_sum(d, axis=0, keepdims=True) for d in d_repeated[:2]]
    kinds.assert_close([results, gradients], [expected, [dx, *d_states, *d_repeated[2:]]])
    layer, shapes = build(LSTM, norm), [(None, None, FEATURES), *[(None, None)] * 2]
    graph = graph_of(
        lambda x, h, c, mask: layer(x, initial_state=[h, c], mask=mask, training=training),
        *shapes,
        ((None, None), "bool"),
    )
    kinds.assert_close(graph(x, *rows[1:], mask), expected)


@pytest.mark.parametrize("training", [False, True])
def test_too_few_rows_of_dynamic_states_raise_at_run_time(training):
    layer, x = build(GRU, "none"), kinds.inputs()
    call = functools.partial(layer, training=training)
    graph = graph_of(lambda x, h: call(x, initial_state=h), (None, TIME, FEATURES), (None, UNITS))
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(x, tf.zeros((BATCH - 1, UNITS), "float64"))


# Outputs and states -----------------------------------------------------------------------------


def test_unrolling_a_dynamic_length_raises():
    graph = graph_of(kinds.build(LSTM, unroll=True), (None, None, FEATURES))
    assert_refused(lambda: graph(kinds.inputs()), "unroll", "time dimension")


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("state", [False, True])
def test_return_sequences_and_return_state_select_the_results(sequences, state):
    outputs, *states = build(LSTM, "layer")(kinds.inputs(), mask=MASK)
    layer = build(LSTM, "layer", return_sequences=sequences, return_state=state)
    result = layer(kinds.inputs(), mask=MASK)
    expected = [outputs if sequences else outputs[:, -1], *(states if state else [])]
    kinds.assert_close(result, expected, 1e-12)
    assert isinstance(result, tuple) == state


def test_stateful_layers_continue_from_batch_to_batch():
    stateless, x = build(LSTM, "timestep"), kinds.inputs()
    options = {"dtype": "float64", "stateful": True, "return_sequences": True}
    layer = LSTM.layer(UNITS, norm=NORMS["timestep"], **options)
    layer.build((BATCH, TIME, FEATURES))
    layer.set_weights(stateless.get_weights())
    states = None
    for _ in range(2):
        expected, *states = stateless(x, initial_state=states)
        kinds.assert_close(layer(x), expected, 1e-12)
    assert len(layer.states) == LSTM.states
    layer.reset_state()
    kinds.assert_close(layer(x), stateless(x)[0], 1e-12)


def test_stateful_layers_need_one_batch_size():
    layer = LSTM.layer(UNITS, stateful=True)
    assert_refused(lambda: layer(keras.Input((TIME, FEATURES))), "stateful", "batch size")
    layer = LSTM.layer(UNITS, stateful=True)
    layer(kinds.inputs().astype("float32"))
    # Keras 3.10 has no message of its own.
    with pytest.raises(ValueError, match=r"batch size|initial state must have the shape"):
        layer(kinds.inputs(batch=2).astype("float32"))


# Dropout ----------------------------------------------------------------------------------------


def test_training_draws_new_dropout_masks_for_each_batch_and_inference_draws_none():
    """keras.layers.RNN draws masks at inference and so writes to the variable of the seed."""
    layer, x = build(LSTM, "layer", recurrent_dropout=0.5, dropout=0.5, seed=3), kinds.inputs()
    seed = layer.cell.seed_generator.state
    before = keras.ops.convert_to_numpy(seed)
    layer(x)
    np.testing.assert_array_equal(seed, before)
    assert not np.allclose(layer(x, training=True)[0], layer(x, training=True)[0])


# Wrappers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "norm"), [(LSTM, "timestep"), (GRU, "layer")], ids=str)
def test_bidirectional_concatenates_both_directions_from_their_states(kind, norm):
    forward, backward = (
        build(kind, norm, go_backwards=b, zero_output_for_mask=True) for b in (False, True)
    )
    for weight in backward.trainable_weights:
        weight.assign(0.7 * weight)
    layer = keras.layers.Bidirectional(forward, None, backward_layer=backward, dtype="float64")
    layer.build((None, None, FEATURES))
    layer.set_weights(forward.get_weights() + backward.get_weights())
    x, states = kinds.inputs(), kinds.cast(kinds.initial_states(kind))
    halved = [state * 0.5 for state in states]
    there, *there_states = forward(x, mask=MASK, initial_state=states)
    back, *back_states = backward(x, mask=MASK, initial_state=halved)
    expected = [there, back[:, ::-1], *there_states, *back_states]
    kinds.assert_close(layer(x, mask=MASK, initial_state=[*states, *halved]), expected, 1e-12)


# Models -----------------------------------------------------------------------------------------


def test_the_masks_of_embedding_and_masking_layers_pass_through_the_layer():
    layer = build(GRU, "layer", return_state=False)
    embedding = keras.layers.Embedding(5, FEATURES, mask_zero=True, dtype="float64")
    pool = keras.layers.GlobalAveragePooling1D(dtype="float64")
    tokens = np.array([[1, 2, 3, 4], [3, 1, 0, 0], [0, 0, 2, 4]])
    expected = layer(embedding(tokens), mask=tokens > 0)
    model = keras.Sequential([embedding, layer, pool])
    kinds.assert_close(model(tokens), pool(expected, mask=tokens > 0), 1e-12)
    x = np.where(MASK[..., None], kinds.inputs(), 0.0)
    masked = keras.layers.Masking(dtype="float64")(x)
    kinds.assert_close(layer(masked), layer(x, mask=MASK), 1e-12)


def test_a_functional_model_takes_initial_states_and_dynamic_sizes_and_can_be_cloned():
    layer = build(LSTM, "timestep")  # an LSTM has two states
    x = keras.Input((None, FEATURES), dtype="float64")
    states = [keras.Input((UNITS,), dtype="float64") for _ in range(LSTM.states)]
    model = keras.Model([x, *states], layer(x, initial_state=states))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    run = tf.function(clone, reduce_retracing=True, autograph=False)
    for batch, time in [(1, 6), (3, 1), (5, 4)]:
        values = kinds.cast([kinds.inputs(batch, time), *kinds.initial_states(LSTM, batch)])
        kinds.assert_close(run(values), layer(values[0], initial_state=values[1:]), 1e-12)


def test_padding_is_ignored_under_keras_3_16(monkeypatch):
    """Its RNN, Bidirectional and TimeDistributed set supports_masking to False.

    Users set it to True in a wrapper, and the layers of the package set it themselves.
    """

    def without_masking(construct, self, *args, **kwargs):
        construct(self, *args, **kwargs)
        self.supports_masking = False

    for name in ("RNN", "Bidirectional", "TimeDistributed"):
        cls = getattr(keras.layers, name)
        construct = functools.partialmethod(functools.partial(without_masking, cls.__init__))
        monkeypatch.setattr(cls, "__init__", construct)
    cls, options = keras_norm.LayerNormGRU, {"return_sequences": True, "dtype": "float64"}
    dense = keras.layers.Dense(UNITS, dtype="float64")
    layers = [
        keras.layers.Masking(dtype="float64"),
        cls(UNITS, **options),
        keras.layers.Bidirectional(cls(UNITS, **options), dtype="float64"),
        keras.layers.TimeDistributed(dense, dtype="float64"),
        cls(UNITS, dtype="float64"),
    ]

    def run(x):
        return functools.reduce(lambda y, layer: layer(y), layers, x)

    x = kinds.inputs(2)
    with pytest.warns(UserWarning, match="does not support masking"):
        run(x)
    for wrapper in layers[2:4]:
        wrapper.supports_masking = True
    x[0, 2:] = 0.0
    padded = run(x)
    kinds.assert_close(padded[:1], run(x[:1, :2]), 1e-12)
    kinds.assert_close(padded[1:], run(x[1:]), 1e-12)


# Arguments --------------------------------------------------------------------------------------


@every_kind
def test_arguments_of_the_cell_are_attributes_of_the_layer_that_cannot_be_set(kind):
    saved = {"zero_output_for_mask": True, "trainable": False, "name": "named"}
    layer = kind.layer(UNITS, norm=LAYER_NORM, dropout=0.1, seed=4, **saved)
    assert kind.layer.from_config(layer.get_config()).get_config().items() >= saved.items()
    theirs = kind.keras_layer(UNITS)
    assert [n for n in theirs.get_config() if hasattr(theirs, n) > hasattr(layer, n)] == []
    assert (layer.units, layer.use_bias, layer.dropout, layer.seed) == (UNITS, True, 0.1, 4)
    assert layer.activation is keras.activations.tanh
    assert layer.norm is LAYER_NORM
    with pytest.raises(AttributeError):
        layer.dropout = 0.5
    with pytest.raises(AttributeError, match=rf"{type(layer).__name__}.*no_such_attribute"):
        layer.no_such_attribute  # noqa: B018


@every_kind
@pytest.mark.parametrize("units", [0, -1, 2.5, "8", True, None], ids=str)
def test_wrong_units_raise(kind, units):
    assert_refused(lambda: kind.layer(units), "positive integer", f"units={units!r}")


@pytest.mark.parametrize("norm", [None, LAYER_NORM], ids=str)
def test_use_cudnn_raises_with_or_without_a_norm(norm):
    fragments = "with or without a norm", "use_cudnn=True", "auto"
    assert_refused(lambda: LSTM.layer(UNITS, use_cudnn=True, norm=norm), *fragments)


X, ONE_STATE = kinds.inputs(), f"({BATCH}, {UNITS})"
WRONG = {
    "complex": (X.astype("complex64"), {}, ["complex64", "feature axis"]),
    "two dimensions": (X[0], {}, ["ndim=3", "2"]),
    "four dimensions": (X[None], {}, ["ndim=3", "4"]),
    **{
        f"mask {mask.shape}": (X, {"mask": mask}, ["(batch, time)", str(mask.shape)])
        for mask in (MASK[:, 0], MASK.T, np.stack([MASK, MASK], -1))
    },
    **{
        f"state {shape}": (X, {"initial_state": np.zeros(shape)}, [ONE_STATE, str(shape)])
        for shape in ((BATCH - 1, UNITS), (BATCH, UNITS + 1))
    },
    "two states": (X, {"initial_state": [np.zeros((BATCH, UNITS))] * 2}, ["has 1 states", "Rec"]),
}


@pytest.mark.parametrize(("x", "given", "fragments"), WRONG.values(), ids=WRONG)
def test_wrong_inputs_masks_and_states_raise(x, given, fragments):
    layer = build(GRU, "layer")
    assert_refused(lambda: layer(x, **given), *fragments)


@every_kind
def test_regularizers_add_the_losses_of_keras(kind):
    """keras.layers.SimpleRNN does not save its activity regularizer; LSTM and GRU do."""
    regularizers = {"kernel": "l2", "recurrent": "l1", "bias": "l2"}
    options = {f"{name}_regularizer": value for name, value in regularizers.items()}
    ours, theirs = kind.layer(UNITS, **options), kind.keras_layer(UNITS, **options)
    kinds.built(ours)
    theirs.build((None, None, FEATURES))
    theirs.set_weights(ours.get_weights())
    kinds.assert_close(sorted(map(float, ours.losses)), sorted(map(float, theirs.losses)))
    layer = kinds.built(kind.layer(UNITS, activity_regularizer="l2", dtype="float64"))
    theirs = keras.layers.Activation("linear", activity_regularizer="l2", dtype="float64")
    theirs(layer(kinds.inputs()))
    np.testing.assert_allclose(layer.losses, theirs.losses)
    copy = kind.layer.from_config(layer.get_config())
    assert copy.activity_regularizer.get_config() == layer.activity_regularizer.get_config()


def test_the_weights_of_a_keras_layer_are_refused_with_the_way_to_convert_them():
    layer, keras_layer = keras_norm.LayerNormLSTM(3), keras.layers.LSTM(3)
    for each in (layer, keras_layer):
        each.build((None, None, 4))
    message = r"has 9 weights, .* Received 3 weights, .* call keras_norm\.convert\(model\)"
    with pytest.raises(ValueError, match=message):
        layer.set_weights(keras_layer.get_weights())
