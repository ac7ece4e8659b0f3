"""Features of all recurrent layers: masks, directions, states, dropout, wrappers, models."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from tests.check_layer import assert_refused
from tests.rnn import kinds
from tests.rnn.kinds import BATCH, FEATURES, KINDS, MASK, TIME, UNITS

ROOT = pathlib.Path(__file__).parents[2]

WITHOUT_STATISTICS = {"none": None, "layer": kinds.PER_SAMPLE_NORMS["layer"]}
ALL = {**WITHOUT_STATISTICS, "timestep": kinds.BATCH_NORMS["timestep"]}

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
# For what all layers compute by the same code: each kind and each norm once.
each_kind_with_a_norm = pytest.mark.parametrize(
    ("kind", "norm"),
    [(kinds.LSTM, ALL["timestep"]), (kinds.GRU, ALL["layer"]), (kinds.SIMPLE_RNN, None)],
    ids=["LSTM, timestep", "GRU, layer", "SimpleRNN, none"],
)


def build(kind, norm, **kwargs):
    """Build a layer with random weights and moving statistics."""
    layer = kinds.build(kind, norm, **kwargs)
    kinds.randomize_statistics(layer)
    return layer


# Masks and directions ---------------------------------------------------------------------------


@each_kind_with_a_norm
@pytest.mark.parametrize(
    "options",
    [
        {"go_backwards": True},
        {"zero_output_for_mask": True},
        {"go_backwards": True, "zero_output_for_mask": True},
    ],
    ids=str,
)
def test_go_backwards_and_zero_output_for_mask_match_the_equations(kind, norm, options):
    kinds.assert_follows_oracle(build(kind, norm, **options), MASK, **options)


@pytest.mark.parametrize(
    ("kind", "norm", "training"),
    [
        *((kind, norm, True) for kind in KINDS for norm in ALL),
        *((kinds.LSTM, norm, False) for norm in ALL),
    ],
    ids=str,
)
def test_invalid_numbers_at_masked_timesteps_do_not_change_results_or_gradients(
    kind, norm, training
):
    layer = build(kind, ALL[norm], dtype="float32")
    x = kinds.inputs().astype("float32")
    garbage = np.resize(np.float32([np.nan, np.inf, 1e38]), x.shape)

    def train(fill):
        filled = tf.constant(np.where(MASK[..., None], x, fill))
        return kinds.train(layer, filled, mask=MASK, training=training)

    kinds.assert_close(train(garbage), train(np.float32(0)), 1e-5)


@each_kind_with_a_norm
def test_a_fully_masked_sequence_keeps_its_initial_state(kind, norm):
    layer, states = build(kind, norm), kinds.initial_states(kind)
    outputs, *after = layer(kinds.inputs(), initial_state=kinds.cast(states), mask=MASK)
    np.testing.assert_array_equal(outputs[-1], np.zeros((TIME, UNITS)))
    kinds.assert_close([state[-1] for state in after], [state[-1] for state in states], 0)


@pytest.mark.parametrize(
    "mask", [MASK.astype("int32"), MASK.astype("float32")], ids=["int", "float"]
)
def test_integer_and_float_masks_equal_bool_masks(mask):
    layer, x = build(kinds.LSTM, kinds.PER_SAMPLE_NORMS["layer"]), kinds.inputs()
    kinds.assert_close(layer(x, mask=mask), layer(x, mask=MASK), 0)


# Unrolled ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "norm"),
    [(kinds.LSTM, "timestep"), (kinds.GRU, "layer"), (kinds.SIMPLE_RNN, "none")],
    ids=str,
)
def test_an_unrolled_layer_equals_the_loop(kind, norm):
    x, states = kinds.cast(kinds.inputs()), kinds.cast(kinds.initial_states(kind))
    found = []
    for unroll in (False, True):
        layer = build(kind, ALL[norm], unroll=unroll)
        found.append([kinds.train(layer, x, states, MASK, training=True), kinds.statistics(layer)])
    kinds.assert_close(*found)


def test_unrolling_a_dynamic_length_raises():
    layer = kinds.build(kinds.LSTM, unroll=True)
    dynamic = tf.TensorSpec((None, None, FEATURES), "float64")
    graph = tf.function(layer, input_signature=[dynamic], autograph=False)
    assert_refused(lambda: graph(kinds.inputs()), "unroll", "time dimension")


# Outputs and states -----------------------------------------------------------------------------


@pytest.mark.parametrize("mask", kinds.MASKS.values(), ids=kinds.MASKS)
def test_return_sequences_and_return_state_select_the_results(mask):
    norm = kinds.PER_SAMPLE_NORMS["layer"]
    full = build(kinds.LSTM, norm)
    outputs, *states = full(kinds.inputs(), mask=mask)
    for sequences in (False, True):
        for state in (False, True):
            layer = build(kinds.LSTM, norm, return_sequences=sequences, return_state=state)
            result = layer(kinds.inputs(), mask=mask)
            expected = [outputs if sequences else outputs[:, -1], *(states if state else [])]
            kinds.assert_close(result, expected, 1e-12)
            assert isinstance(result, tuple) == state


@every_kind
def test_layers_with_timestep_statistics_do_not_return_the_counter(kind):
    layer = build(kind, kinds.BATCH_NORMS["timestep"])
    results = layer(kinds.inputs())
    assert [tuple(r.shape) for r in results] == [
        (BATCH, TIME, UNITS),
        *[(BATCH, UNITS)] * kind.states,
    ]
    symbolic = layer(keras.Input((None, FEATURES)))
    assert [s.shape for s in symbolic] == [(None, None, UNITS), *[(None, UNITS)] * kind.states]


@every_kind
def test_the_first_state_equals_the_last_output(kind):
    outputs, h, *_ = build(kind, kinds.PER_SAMPLE_NORMS["layer"])(kinds.inputs())
    kinds.assert_close(h, outputs[:, -1], 0)


def test_the_initial_state_defaults_to_zeros():
    layer, x = build(kinds.LSTM, kinds.PER_SAMPLE_NORMS["layer"]), kinds.inputs()
    zeros = [tf.zeros((BATCH, UNITS), "float64")] * kinds.LSTM.states
    kinds.assert_close(layer(x), layer(x, initial_state=zeros), 0)


@pytest.mark.parametrize("batch", [BATCH, None], ids=["static batch", "dynamic batch"])
@pytest.mark.parametrize("training", [False, True])
def test_one_row_of_initial_states_applies_to_every_sequence(batch, training):
    kind = kinds.LSTM  # an LSTM has two states
    layer, x = build(kind, kinds.PER_SAMPLE_NORMS["layer"]), kinds.inputs()
    rows = [state[:1] for state in kinds.initial_states(kind)]

    @tf.function(
        input_signature=[tf.TensorSpec((batch, TIME, FEATURES), "float64")], autograph=False
    )
    def graph(x):
        return layer(x, initial_state=kinds.cast(rows), training=training)

    expected = layer(x, initial_state=kinds.cast([row.repeat(BATCH, 0) for row in rows]))
    kinds.assert_close(graph(x), expected)
    kinds.assert_close(layer(x, initial_state=kinds.cast(rows), training=training), expected)


@pytest.mark.parametrize(("norm", "training"), [("layer", False), ("timestep", True)])
def test_initial_states_may_have_dynamic_sizes(norm, training):
    layer, x = build(kinds.GRU, ALL[norm]), kinds.inputs(batch=20)
    state = kinds.initial_states(kinds.GRU)[0][:1]
    signature = [
        tf.TensorSpec((None, None, FEATURES), "float64"),
        tf.TensorSpec((None, None), "float64"),
    ]
    graph = tf.function(
        lambda x, h: layer(x, initial_state=h, training=training), signature, autograph=False
    )
    other = build(kinds.GRU, ALL[norm])
    expected = other(x, initial_state=state.repeat(20, axis=0), training=training)
    kinds.assert_close(graph(x, state), expected)


def test_the_gradient_of_one_row_of_states_is_the_sum_over_sequences():
    layer, x = build(kinds.GRU, kinds.PER_SAMPLE_NORMS["layer"]), kinds.inputs()
    one = tf.constant(kinds.initial_states(kinds.GRU)[0][:1])
    found = []
    for state in (one, tf.repeat(one, BATCH, axis=0)):
        with tf.GradientTape() as tape:
            tape.watch(state)
            outputs, _ = layer(x, initial_state=state, training=True)
        found.append(tf.reduce_sum(tape.gradient(outputs, state), axis=0))
    kinds.assert_close(*found)


@pytest.mark.parametrize("shape", [(BATCH - 1, UNITS), (BATCH, UNITS + 1)], ids=str)
def test_initial_states_of_another_shape_raise(shape):
    layer = build(kinds.GRU, None)
    assert_refused(
        lambda: layer(kinds.inputs(), initial_state=tf.zeros(shape, "float64")),
        f"({BATCH}, {UNITS})",
        str(shape),
    )


@pytest.mark.parametrize("training", [False, True])
def test_too_few_rows_of_dynamic_states_raise_at_run_time(training):
    layer = build(kinds.GRU, None)

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, TIME, FEATURES), "float64"),
            tf.TensorSpec((None, UNITS), "float64"),
        ],
        autograph=False,
    )
    def graph(x, state):
        return layer(x, initial_state=state, training=training)

    few = tf.zeros((BATCH - 1, UNITS), "float64")
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(kinds.inputs(), few)


@pytest.mark.parametrize(("kind", "norm"), [(kinds.LSTM, "layer"), (kinds.GRU, "none")], ids=str)
def test_passing_final_states_on_continues_a_sequence(kind, norm):
    layer, x = build(kind, ALL[norm]), kinds.inputs()
    whole, *end = layer(x)
    first, *middle = layer(x[:, :2])
    second, *end_of_parts = layer(x[:, 2:], initial_state=middle)
    kinds.assert_close([tf.concat([first, second], 1), *end_of_parts], [whole, *end], 1e-12)


@each_kind_with_a_norm
def test_stateful_layers_continue_from_batch_to_batch(kind, norm):
    stateless, x = build(kind, norm), kinds.inputs()
    layer = kind.layer(UNITS, norm=norm, dtype="float64", stateful=True, return_sequences=True)
    layer.build((BATCH, TIME, FEATURES))
    layer.set_weights(stateless.get_weights())
    states = None
    for _ in range(2):
        expected, *states = stateless(x, initial_state=states)
        kinds.assert_close(layer(x), expected, 1e-12)
    assert len(layer.states) == kind.states
    layer.reset_state()
    kinds.assert_close(layer(x), stateless(x)[0], 1e-12)


def test_stateful_layers_need_a_batch_size():
    layer = kinds.LSTM.layer(UNITS, stateful=True)
    assert_refused(lambda: layer(keras.Input((TIME, FEATURES))), "stateful", "batch size")


def test_another_batch_size_raises_in_stateful_layers():
    layer = kinds.LSTM.layer(UNITS, stateful=True)
    layer(kinds.inputs().astype("float32"))
    # Keras 3.10 has no message of its own.
    with pytest.raises(ValueError, match=r"batch size|initial state must have the shape"):
        layer(kinds.inputs(batch=2).astype("float32"))


# Dropout ----------------------------------------------------------------------------------------


@every_kind
def test_input_dropout_draws_one_mask_for_all_timesteps(kind):
    """With one feature, dropout multiplies all inputs of a sequence by 0 or by 2."""
    options = {"dtype": "float64", "return_sequences": True}
    norm = kinds.PER_SAMPLE_NORMS["rms"]
    layer = kind.layer(UNITS, norm=norm, dropout=0.5, seed=3, **options)
    without_dropout = kind.layer(UNITS, norm=norm, **options)
    for each in (layer, without_dropout):
        each.build((None, None, 1))
        kinds.randomize(each)
    x = kinds.draw(20, TIME, 1)
    dropped, kept = without_dropout(0.0 * x), without_dropout(2.0 * x)
    ours = layer(x, training=True)
    is_dropped = np.isclose(ours, dropped).all(axis=(1, 2))
    is_kept = np.isclose(ours, kept).all(axis=(1, 2))
    assert (is_dropped ^ is_kept).all()
    assert 0 < is_kept.sum() < 20


@every_kind
def test_recurrent_dropout_draws_a_new_mask_for_each_batch(kind):
    layer, x = (
        build(kind, kinds.PER_SAMPLE_NORMS["layer"], recurrent_dropout=0.5, seed=3),
        kinds.inputs(),
    )
    assert not np.allclose(layer(x, training=True)[0], layer(x, training=True)[0])


def test_inference_draws_no_dropout_mask():
    """keras.layers.RNN draws masks at inference and so writes to the variable of the seed."""
    layer = build(kinds.LSTM, kinds.PER_SAMPLE_NORMS["layer"], dropout=0.5, recurrent_dropout=0.5)
    seed = layer.cell.seed_generator.state
    before = keras.ops.convert_to_numpy(seed)
    layer(kinds.inputs())
    np.testing.assert_array_equal(seed, before)


# Wrappers ---------------------------------------------------------------------------------------


def halves(kind, norm, **kwargs):
    forward, backward = (build(kind, norm, go_backwards=b, **kwargs) for b in (False, True))
    for weight in backward.trainable_weights:
        weight.assign(0.7 * weight)
    return forward, backward


@pytest.mark.parametrize(
    ("kind", "norm"), [(kinds.LSTM, "timestep"), (kinds.GRU, "layer")], ids=str
)
def test_bidirectional_concatenates_both_directions(kind, norm):
    norm, mask = ALL[norm], MASK
    forward, backward = halves(kind, norm, zero_output_for_mask=True)
    layer = keras.layers.Bidirectional(forward, None, backward_layer=backward, dtype="float64")
    layer.build((None, None, FEATURES))
    layer.set_weights(forward.get_weights() + backward.get_weights())
    x = kinds.inputs()
    there, *there_states = forward(x, mask=mask)
    back, *back_states = backward(x, mask=mask)
    expected = [there, back[:, ::-1], *there_states, *back_states]
    kinds.assert_close(layer(x, mask=mask), expected, 1e-12)


@pytest.mark.parametrize(("kind", "norm"), [(kinds.LSTM, "layer"), (kinds.GRU, "none")], ids=str)
def test_bidirectional_takes_initial_states(kind, norm):
    forward, backward = halves(kind, ALL[norm])
    layer = keras.layers.Bidirectional(forward, backward_layer=backward, dtype="float64")
    layer.build((None, None, FEATURES))
    layer.set_weights(forward.get_weights() + backward.get_weights())
    states = kinds.cast(kinds.initial_states(kind))
    halved = [state * 0.5 for state in states]
    actual = layer(kinds.inputs(), initial_state=[*states, *halved])
    there = forward(kinds.inputs(), initial_state=states)
    back = backward(kinds.inputs(), initial_state=halved)
    kinds.assert_close(actual[0], tf.concat([there[0], back[0][:, ::-1]], -1), 1e-12)


def test_time_distributed_applies_the_layer_to_every_sequence():
    layer = build(kinds.GRU, kinds.PER_SAMPLE_NORMS["layer"], return_state=False)
    x = kinds.draw(3, 2, TIME, FEATURES)
    actual = keras.layers.TimeDistributed(layer, dtype="float64")(x)
    expected = layer(x.reshape(6, TIME, FEATURES))
    np.testing.assert_allclose(actual, np.reshape(expected, actual.shape), atol=1e-12)


# Models -----------------------------------------------------------------------------------------


def test_the_mask_of_an_embedding_passes_through_the_layer():
    layer = build(kinds.GRU, kinds.PER_SAMPLE_NORMS["layer"], return_state=False)
    embedding = keras.layers.Embedding(5, FEATURES, mask_zero=True, dtype="float64")
    pool = keras.layers.GlobalAveragePooling1D(dtype="float64")
    tokens = np.array([[1, 2, 3, 4], [3, 1, 0, 0], [0, 0, 2, 4]])
    expected = layer(embedding(tokens), mask=tokens > 0)
    model = keras.Sequential([embedding, layer, pool])
    kinds.assert_close(model(tokens), pool(expected, mask=tokens > 0), 1e-12)


def test_the_mask_of_a_masking_layer_is_used():
    layer = build(kinds.LSTM, kinds.PER_SAMPLE_NORMS["layer"])
    x = np.where(MASK[..., None], kinds.inputs(), 0.0)
    masked = keras.layers.Masking(dtype="float64")(x)
    kinds.assert_close(layer(masked), layer(x, mask=MASK), 1e-12)


def test_a_functional_model_takes_initial_states_and_dynamic_sizes():
    kind = kinds.LSTM  # an LSTM has two states
    layer = build(kind, kinds.BATCH_NORMS["timestep"])
    x = keras.Input((None, FEATURES), dtype="float64")
    states = [keras.Input((UNITS,), dtype="float64") for _ in range(kind.states)]
    model = keras.Model([x, *states], layer(x, initial_state=states))
    run = tf.function(model, reduce_retracing=True, autograph=False)
    for batch, time in [(1, 6), (3, 1), (5, 4)]:
        values = kinds.cast([kinds.inputs(batch, time), *kinds.initial_states(kind, batch)])
        kinds.assert_close(run(values), layer(values[0], initial_state=values[1:]), 1e-12)


def test_a_cloned_model_equals_the_original():
    inputs = keras.Input((None, FEATURES), dtype="float64")
    layer = build(kinds.LSTM, kinds.BATCH_NORMS["timestep"])
    model = keras.Model(inputs, layer(inputs))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    kinds.assert_close(clone(kinds.inputs()), layer(kinds.inputs()), 1e-12)


# Masks under Keras 3.16, whose classes set supports_masking to False ------------------------------


def without_masking(monkeypatch, cls):
    """Patch a Keras class to set supports_masking to False, as Keras 3.16 does."""
    construct = cls.__init__

    def construct_without_masking(self, *args, **kwargs):
        construct(self, *args, **kwargs)
        self.supports_masking = False

    monkeypatch.setattr(cls, "__init__", construct_without_masking)


def assert_padding_is_ignored(run):
    """Check that padding does not change the outputs."""
    x = kinds.inputs(2)
    x[0, 2:] = 0.0
    padded = run(x)
    kinds.assert_close(padded[:1], run(x[:1, :2]), 1e-12)
    kinds.assert_close(padded[1:], run(x[1:]), 1e-12)


@pytest.mark.parametrize("prefix", ["Norm", "LayerNorm", "BatchNorm"])
def test_stacked_layers_pass_a_mask_on_if_keras_rnn_does_not(prefix, monkeypatch):
    without_masking(monkeypatch, keras.layers.RNN)
    options = {"dtype": "float64", **({"max_timesteps": TIME} if prefix == "BatchNorm" else {})}
    cls = kinds.SIMPLE_RNN.preset(prefix)
    first, second = (cls(UNITS, return_sequences=r, **options) for r in (1, 0))
    masking = keras.layers.Masking(dtype="float64")
    assert_padding_is_ignored(lambda x: second(first(masking(x))))


@keras.saving.register_keras_serializable("tests")
class MaskedBidirectional(keras.layers.Bidirectional):
    """The wrapper of docs/guides/masks.md, which sets supports_masking."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.supports_masking = True


def bidirectional(cls=keras.layers.Bidirectional):
    layer = keras_norm.LayerNormGRU(UNITS, return_sequences=True, dtype="float64")
    return cls(layer, dtype="float64")


def time_distributed():
    return keras.layers.TimeDistributed(keras.layers.Dense(UNITS, dtype="float64"), dtype="float64")


@pytest.mark.parametrize("wrap", [bidirectional, time_distributed])
def test_wrappers_with_supports_masking_pass_a_mask_on(wrap, monkeypatch):
    for cls in (keras.layers.Bidirectional, keras.layers.TimeDistributed):
        without_masking(monkeypatch, cls)
    wrapper, masking = wrap(), keras.layers.Masking(dtype="float64")
    last = keras_norm.LayerNormGRU(UNITS, dtype="float64")
    with pytest.warns(UserWarning, match="does not support masking"):
        last(wrapper(masking(kinds.inputs())))
    wrapper.supports_masking = True
    assert_padding_is_ignored(lambda x: last(wrapper(masking(x))))


def test_a_loaded_wrapper_with_supports_masking_passes_a_mask_on(monkeypatch, tmp_path):
    without_masking(monkeypatch, keras.layers.Bidirectional)
    inputs = keras.Input((None, FEATURES), dtype="float64")
    x = keras.layers.Masking(dtype="float64")(inputs)
    x = bidirectional(MaskedBidirectional)(x)
    model = keras.Model(inputs, keras_norm.LayerNormGRU(UNITS, dtype="float64")(x))
    assert_padding_is_ignored(model)
    model.save(tmp_path / "model.keras")
    assert_padding_is_ignored(keras.models.load_model(tmp_path / "model.keras"))


# Arguments --------------------------------------------------------------------------------------


@every_kind
def test_every_argument_of_the_keras_layer_is_accepted_and_saved(kind):
    theirs = kind.keras_layer(UNITS).get_config()
    changed = {
        "activation": "relu",
        "use_bias": False,
        "kernel_initializer": "ones",
        "kernel_regularizer": "l2",
        "recurrent_constraint": "non_neg",
        "dropout": 0.1,
        "recurrent_dropout": 0.2,
        "seed": 5,
        "return_sequences": True,
        "return_state": True,
        "go_backwards": True,
        "stateful": True,
        "unroll": True,
        "zero_output_for_mask": True,
        "name": "named",
        "dtype": "mixed_bfloat16",
        "trainable": False,
    }
    expected = kind.keras_layer(UNITS, **changed).get_config()
    ours = kind.layer(UNITS, **changed).get_config()
    assert set(theirs) <= set(ours)
    assert {key: ours[key] for key in expected} == expected
    assert kind.layer.from_config(ours).get_config() == ours


@every_kind
def test_arguments_of_the_cell_are_attributes_of_the_layer(kind):
    layer = kind.layer(UNITS, norm=kinds.PER_SAMPLE_NORMS["layer"], dropout=0.1, seed=4)
    assert (layer.units, layer.use_bias, layer.dropout, layer.seed) == (UNITS, True, 0.1, 4)
    assert layer.activation is keras.activations.tanh
    assert layer.norm is kinds.PER_SAMPLE_NORMS["layer"]
    theirs = kind.keras_layer(UNITS)
    for name in theirs.get_config():
        if hasattr(theirs, name):
            assert hasattr(layer, name), name


def test_an_unknown_attribute_raises_with_its_name():
    with pytest.raises(AttributeError, match=r"NormLSTM.*no_such_attribute"):
        kinds.LSTM.layer(UNITS).no_such_attribute  # noqa: B018


@every_kind
def test_an_unknown_argument_raises_with_its_name(kind):
    assert_refused(lambda: kind.layer(UNITS, no_such_argument=1), "no_such_argument")


@pytest.mark.parametrize("use_cudnn", ["auto", False])
def test_use_cudnn_may_be_auto_or_false(use_cudnn):
    assert kinds.GRU.layer(UNITS, use_cudnn=use_cudnn)(kinds.inputs()).shape == (BATCH, UNITS)


@every_kind
@pytest.mark.parametrize("norm", WITHOUT_STATISTICS.values(), ids=WITHOUT_STATISTICS)
def test_use_cudnn_true_raises(kind, norm):
    assert_refused(
        lambda: kind.layer(UNITS, norm=norm, use_cudnn=True),
        "with or without a norm",
        "Received: use_cudnn=True",
        "Leave use_cudnn at 'auto'",
        "keras.layers.LSTM",
    )


@every_kind
@pytest.mark.parametrize("units", [0, -1, 2.5, "8", True, None], ids=repr)
def test_units_that_are_not_a_positive_integer_raise(kind, units):
    assert_refused(lambda: kind.layer(units), "positive integer", f"units={units!r}")


@every_kind
def test_complex_inputs_raise(kind):
    layer = kind.layer(UNITS, norm=kinds.PER_SAMPLE_NORMS["layer"])
    assert_refused(lambda: layer(kinds.inputs().astype("complex64")), "complex64", "feature axis")


@every_kind
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5)])
def test_inputs_of_another_rank_raise(kind, shape):
    layer = kind.layer(UNITS, norm=kinds.PER_SAMPLE_NORMS["layer"])
    assert_refused(lambda: layer(np.zeros(shape, "float32")), "ndim=3", str(len(shape)))


@every_kind
def test_regularizers_add_the_losses_of_keras(kind):
    options = {
        "kernel_regularizer": "l2",
        "recurrent_regularizer": "l1",
        "bias_regularizer": "l2",
    }
    ours, theirs = kind.layer(UNITS, **options), kind.keras_layer(UNITS, **options)
    kinds.built(ours)
    theirs.build((None, None, FEATURES))
    theirs.set_weights(ours.get_weights())
    kinds.assert_close(sorted(map(float, ours.losses)), sorted(map(float, theirs.losses)))


@every_kind
def test_the_activity_regularizer_applies_to_the_outputs_and_is_saved(kind):
    """keras.layers.SimpleRNN does not save it; keras.layers.LSTM and GRU do."""
    layer = kinds.built(kind.layer(UNITS, activity_regularizer="l2", dtype="float64"))
    outputs = layer(kinds.inputs())
    theirs = keras.layers.Activation("linear", activity_regularizer="l2", dtype="float64")
    theirs(outputs)
    np.testing.assert_allclose(layer.losses, theirs.losses)
    copy = kind.layer.from_config(layer.get_config())
    assert copy.activity_regularizer.get_config() == layer.activity_regularizer.get_config()


# Masks and states of other shapes ---------------------------------------------------------------


def test_a_mask_may_have_a_last_dimension_of_one():
    layer = build(kinds.SIMPLE_RNN, kinds.PER_SAMPLE_NORMS["layer"])
    kinds.assert_close(
        layer(kinds.inputs(), mask=MASK[..., None]), layer(kinds.inputs(), mask=MASK), 1e-12
    )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("rows", [1, None], ids=["one row", "dynamic"])
def test_one_row_of_a_mask_applies_to_every_sequence(training, rows):
    layer = build(kinds.SIMPLE_RNN, kinds.PER_SAMPLE_NORMS["layer"])
    x = kinds.inputs(batch=20)
    signature = [
        tf.TensorSpec((None, None, FEATURES), "float64"),
        tf.TensorSpec((rows, None, None), "bool"),
    ]
    graph = tf.function(
        lambda x, mask: layer(x, mask=mask, training=training), signature, autograph=False
    )
    expected = layer(x, mask=MASK[3:4].repeat(20, axis=0))
    kinds.assert_close(graph(x, MASK[3:4, :, None]), expected)
    kinds.assert_close(layer(x, mask=MASK[3:4], training=training), expected)


@pytest.mark.parametrize(
    "mask", [MASK[:, 0], MASK.T, np.stack([MASK, MASK], -1)], ids=["1", "t", "3"]
)
def test_a_mask_of_another_shape_raises(mask):
    layer = build(kinds.SIMPLE_RNN, None)
    assert_refused(lambda: layer(kinds.inputs(), mask=mask), "(batch, time)", str(mask.shape))


@every_kind
def test_a_wrong_number_of_initial_states_raises(kind):
    layer = build(kind, None)
    states = [np.zeros((BATCH, UNITS))] * (kind.states + 1)
    assert_refused(
        lambda: layer(kinds.inputs(), initial_state=states),
        f"has {kind.states} states",
        f"Received {kind.states + 1}",
    )


@every_kind
def test_setting_an_argument_of_the_cell_on_the_layer_raises(kind):
    layer = kind.layer(UNITS)
    assert layer.dropout == 0.0
    with pytest.raises(AttributeError):
        layer.dropout = 0.5


def test_the_weights_of_a_keras_layer_are_refused_with_the_way_to_convert_them():
    layer = keras_norm.LayerNormLSTM(3)
    layer.build((None, None, 4))
    keras_layer = keras.layers.LSTM(3)
    keras_layer.build((None, None, 4))
    message = r"has 9 weights, .* Received 3 weights, .* call keras_norm\.convert\(model\)"
    with pytest.raises(ValueError, match=message):
        layer.set_weights(keras_layer.get_weights())
