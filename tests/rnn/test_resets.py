"""Rows of several sequences equal each sequence run alone: outputs, states and gradients."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm import LayerNormalization, TimestepBatchNormalization
from tests import oracles
from tests.check_layer import assert_refused
from tests.pairwise import pairwise
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, GRU, KINDS, LSTM, SIMPLE_RNN, UNITS

# A row of one sequence; rows of three sequences; sequences of one timestep. The mask has padding on
# the left and on the right of a sequence, inside it, and a fully masked sequence at the end.
RESETS = np.array(
    [[0, 0, 0, 0, 0, 0], [1, 0, 1, 0, 0, 1], [0, 1, 0, 0, 1, 0], [0, 0, 0, 1, 1, 1]], bool
)
MASK = np.array(
    [[0, 1, 1, 0, 1, 1], [1, 1, 0, 1, 1, 0], [1, 0, 0, 1, 0, 1], [0, 0, 0, 1, 0, 1]], bool
)
BATCH, TIME = RESETS.shape
MASKS = {"unmasked": None, "masked": MASK}
LAYER_NORM = LayerNormalization(epsilon=1e-3)


def timestep(**options):
    return TimestepBatchNormalization(TIME - 3, **options)


NORMS = {
    "none": None,
    "layer": LAYER_NORM,
    "joined": {"kernel_norm": kinds.BATCH_NORMS["batch"], "recurrent_norm": LAYER_NORM},
    "timestep": timestep(),
    "timestep from padding": timestep(count_leading_padding=True),
    "frozen": timestep(trainable=False),
    "zoneout": LAYER_NORM,
}
# A norm, and whether to train; with "zoneout" at inference, which mixes with the states of a reset.
MODES = [
    ("none", True),
    ("layer", True),
    ("layer", False),
    ("timestep", False),
    ("timestep from padding", False),
    ("frozen", True),
    ("zoneout", False),
]


def build(kind, norm, **options):
    """Build a layer with random weights; the first two timesteps have trained statistics."""
    if norm == "zoneout":
        options |= {"zoneout": 0.3, "cell_zoneout": 0.2} if kind is LSTM else {"zoneout": 0.3}
    layer = kinds.build(kind, NORMS[norm], **options)
    kinds.randomize_statistics(layer, reached=2)
    return layer


def data(kind):
    return kinds.draw(BATCH, TIME, FEATURES), kinds.initial_states(kind, BATCH)


class Apart:
    """The sequences of rows as rows of their own, padded with masked timesteps.

    Padding is behind a sequence in the order of the loop.

    Args:
        resets: (batch, time).
        mask: (batch, time), or None.
        go_backwards: whether the loop is reversed.
    """

    def __init__(self, resets=RESETS, mask=None, go_backwards=False):
        batch, time = resets.shape
        self.spans = []  # (row, first timestep, end) of each sequence
        for row in range(batch):
            cuts = [0, *(np.flatnonzero(resets[row, 1:]) + 1), time]
            self.spans += [(row, *span) for span in itertools.pairwise(cuts)]
        self.rows = np.array([row for row, *_ in self.spans])
        self.go_backwards, self.time = go_backwards, time
        # Position (sequence, timestep) of each timestep of the rows; the inverse for the inputs.
        self.place = np.zeros((batch, time, 2), int)
        self.source = np.zeros((len(self.spans), time, 2), int)
        self.mask = np.zeros((len(self.spans), time), bool)
        for k, (row, start, end) in enumerate(self.spans):
            first = time - (end - start) if go_backwards else 0
            for t in range(start, end):
                at = first + t - start
                self.place[row, t] = k, at
                self.source[k, at] = row, t
                self.mask[k, at] = mask is None or mask[row, t]
        if go_backwards:  # outputs have the order of the loop
            self.place = self.place[:, ::-1]
            self.place[..., 1] = time - 1 - self.place[..., 1]
        last = [end == time if not go_backwards else start == 0 for _, start, end in self.spans]
        self.last = np.flatnonzero(last)

    def split(self, x, states):
        """Return the sequences as rows, and their states; works for NumPy and for TensorFlow."""
        if isinstance(x, np.ndarray):
            return x[tuple(self.source.T)].swapaxes(0, 1), [h[self.rows] for h in states]
        return tf.gather_nd(x, self.source), [tf.gather(1.0 * h, self.rows) for h in states]

    def join(self, results):
        """Return outputs in the rows, and the states after the last sequence of each row."""
        outputs, *last = results
        if isinstance(outputs, np.ndarray):
            return [outputs[tuple(self.place.T)].swapaxes(0, 1), *(h[self.last] for h in last)]
        return [tf.gather_nd(outputs, self.place), *(tf.gather(h, self.last) for h in last)]


def run_oracle(layer, weights, x, states, apart, **order):
    """Run the equations in NumPy on each sequence alone."""
    x, states = apart.split(x, states)
    rates = layer.cell.zoneout_rates()
    order["changes"] = [np.full(TIME, 1.0 - rate) for rate in rates] if any(rates) else ()
    return apart.join(kinds.reference(layer.cell, weights, x, states, apart.mask, **order))


@pytest.mark.parametrize(
    "options",
    pairwise(
        kind=KINDS,
        mode=MODES,
        mask=list(MASKS),
        compiled=[False, True],
        go_backwards=[False, True],
        zero_output_for_mask=[False, True],
    ),
    ids=lambda options: ", ".join(str(value) for value in options.values()),
)
def test_results_and_gradients_equal_those_of_each_sequence_alone(options):
    """Results equal those of the equations, and gradients those of the loop without resets."""
    kind, (norm, training), mask = (options[name] for name in ("kind", "mode", "mask"))
    order = {name: options[name] for name in ("go_backwards", "zero_output_for_mask")}
    apart = Apart(RESETS, MASKS[mask], order["go_backwards"])
    x, states = data(kind)
    layer = build(kind, norm, compiled=options["compiled"], **order)
    call = {"mask": MASKS[mask], "training": training, "resets": RESETS}
    found = kinds.train(layer, kinds.cast(x), kinds.cast(states), **call)
    exact = run_oracle(layer, kinds.values(layer.cell), x, states, apart, **order)
    kinds.assert_close(found[0], exact, 1e-12)
    loop = build(kind, norm, compiled=False, **order)

    def run_apart(x, initial_state, mask, training):
        x, states = apart.split(x, initial_state)
        return apart.join(loop(x, initial_state=states, mask=apart.mask, training=training))

    run_apart.trainable_variables = loop.trainable_variables
    kinds.assert_close(
        found, kinds.train(run_apart, kinds.cast(x), kinds.cast(states), None, training)
    )


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_gradients_of_states_inputs_and_recurrent_kernel_equal_those_of_the_equations(kind):
    layer, apart = build(kind, "layer"), Apart(RESETS, MASK)
    x, states = data(kind)
    weights = kinds.values(layer.cell)
    sources = {"x": x, **{f"state {k}": h for k, h in enumerate(states)}}
    sources["recurrent_kernel"] = weights["recurrent_kernel"]

    def loss(sources):
        changed = {**weights, "recurrent_kernel": sources["recurrent_kernel"]}
        h = [sources[f"state {k}"] for k in range(len(states))]
        results = run_oracle(layer, changed, sources["x"], h, apart)
        return sum(np.sin(3.0 * result).sum() for result in results)

    _, found = kinds.train_by_name(layer, kinds.cast(x), kinds.cast(states), MASK, resets=RESETS)
    for name, source in sources.items():
        exact = oracles.gradient(lambda v, n=name: loss({**sources, n: v}), source)
        np.testing.assert_allclose(found[name], exact, rtol=0, atol=1e-10, err_msg=name)


# Arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
def test_resets_of_one_row_of_numbers_or_with_a_last_dimension_of_one_equal_bool_resets(compiled):
    """Sizes may be dynamic; an initial state of one row is the state after each reset."""
    layer, (x, states) = build(LSTM, "timestep", compiled=compiled), data(LSTM)
    row, x = RESETS[1:2], kinds.cast(x)
    states = kinds.cast([state[:1] for state in states])
    expected = layer(x, mask=MASK, initial_state=states, resets=np.repeat(row, BATCH, axis=0))
    for resets in (row, row.astype("float32"), row.astype("int64")[..., None]):
        kinds.assert_close(layer(x, mask=MASK, initial_state=states, resets=resets), expected, 0)
    shapes = (None, None, FEATURES), (None, UNITS), (None, UNITS), (None, None), (None, None)
    dtypes = *["float64"] * 3, "bool", "bool"
    graph = tf.function(
        lambda x, h, c, mask, resets: layer(x, [h, c], mask, resets=resets),
        list(map(tf.TensorSpec, shapes, dtypes)),
        autograph=False,
    )
    kinds.assert_close(graph(x, *states, MASK, row), expected, 1e-12)
    kinds.assert_close(graph(x, *states, MASK[:1], row), layer(x, states, MASK[:1], resets=row))


@pytest.mark.parametrize("shape", [(TIME,), (BATCH, TIME + 1), (BATCH + 1, TIME)], ids=str)
def test_resets_of_another_shape_raise(shape):
    layer, (x, _) = build(SIMPLE_RNN, "none"), data(SIMPLE_RNN)
    call = {"resets": np.zeros(shape, bool)}
    assert_refused(lambda: layer(x, **call), "resets", "(batch, time)", str(shape), str(x.shape))


@pytest.mark.parametrize("norm", ["timestep", "recurrent batch"])
def test_statistics_of_a_batch_at_each_timestep_are_refused_in_training(norm):
    batch_norm = {"recurrent_norm": keras_norm.BatchNormalization()}
    layer = kinds.build(GRU, NORMS.get(norm, batch_norm), name="mine")
    x, _ = data(GRU)
    fragments = "NormGRU 'mine'", "resets", "one sequence per row"
    assert_refused(lambda: layer(x, training=True, resets=RESETS), *fragments)
    layer(x, resets=RESETS)
    layer(x, training=True)


def test_a_batch_norm_of_all_inputs_has_the_statistics_of_all_sequences():
    layers = [kinds.build(LSTM, NORMS["joined"]) for _ in range(2)]
    x, states = data(LSTM)
    apart = Apart(RESETS, MASK)
    found = layers[0](x, kinds.cast(states), MASK, resets=RESETS, training=True)
    alone, alone_states = apart.split(x, states)
    expected = layers[1](alone, kinds.cast(alone_states), apart.mask, training=True)
    kinds.assert_close(found, apart.join([np.asarray(y) for y in expected]))
    kinds.assert_close(*map(kinds.statistics, layers))


# Layers and models ------------------------------------------------------------------------------


def test_a_reset_of_a_stateful_layer_sets_zeros_and_not_the_stored_state():
    """The first sequence of a row continues, unless its first timestep is a reset."""
    x, _ = data(LSTM)
    options = {"norm": LAYER_NORM, "return_sequences": True, "dtype": "float64"}
    layer = LSTM.layer(UNITS, stateful=True, **options)
    layer.build((BATCH, TIME, FEATURES))
    kinds.randomize(layer)
    layer(x)
    stored = [np.asarray(state) for state in layer.states]
    alone = LSTM.layer(UNITS, **options)
    alone.build((BATCH, TIME, FEATURES))
    alone.set_weights(layer.get_weights()[:9])
    resets = RESETS | [[False], [True], [False], [False]] & (np.arange(TIME) == 0)
    apart = Apart(resets)
    rows, _ = apart.split(x, [])
    first = [start == 0 and not resets[row, 0] for row, start, _ in apart.spans]
    states = [np.where(np.array(first)[:, None], h[apart.rows], 0.0) for h in stored]
    (expected,) = apart.join([np.asarray(alone(rows, kinds.cast(states), apart.mask))])
    kinds.assert_close(layer(x, resets=resets), expected, 1e-12)


def test_a_functional_model_takes_resets_and_the_mask_of_an_embedding(tmp_path):
    keras.utils.set_random_seed(0)
    tokens = keras.Input((None,), dtype="int32")
    resets = keras.Input((None,), dtype="bool", name="resets")
    y = keras.layers.Embedding(7, FEATURES, mask_zero=True)(tokens)
    y = keras_norm.LayerNormLSTM(UNITS, return_sequences=True)(y, resets=resets)
    y = keras_norm.LayerNormGRU(UNITS, return_sequences=True)(y, resets=resets)
    model = keras.Model([tokens, resets], y)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    given = np.where(MASK, 3 + np.arange(TIME) % 4, 0)
    apart = Apart(RESETS, MASK)
    alone, _ = apart.split(given, [])
    alone = np.where(apart.mask, alone, 0)
    expected = model([alone, np.zeros_like(apart.mask)])
    for each in (model, loaded, keras.models.clone_model(model)):
        each.set_weights(model.get_weights())
        found = each.predict([given, RESETS], verbose=0)
        kinds.assert_close(found, apart.join([np.asarray(expected)])[0], 1e-6)
    model.compile("sgd", "mse")
    model.fit([given, RESETS], expected[:BATCH], verbose=0)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_resets_change_low_precision_by_rounding_only(dtype):
    x, _ = data(GRU)
    layer = GRU.layer(UNITS, norm=LAYER_NORM, return_sequences=True, dtype=dtype)
    layer.build((None, None, FEATURES))
    apart = Apart(RESETS, MASK)
    alone = layer(apart.split(x, [])[0], mask=apart.mask)
    expected = apart.join([np.asarray(keras.ops.cast(alone, "float32"))])[0]
    for training in (False, True):
        found = layer(x, mask=MASK, resets=RESETS, training=training)
        assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
        kinds.assert_close(keras.ops.cast(found, "float32"), expected, 4e-3)


@pytest.mark.usefixtures("xla")
@pytest.mark.parametrize("jit_compile", [False, True])
def test_programs_of_xla_equal_the_loop(jit_compile):
    x, states = kinds.cast(kinds.draw(5, 7, FEATURES)), kinds.cast(kinds.initial_states(LSTM, 5))
    resets = np.random.default_rng(0).random((5, 7)) < 0.3
    call = {"mask": resets | (np.arange(7) % 3 > 0), "resets": resets}

    def run(layer):
        graph = tf.function(
            lambda x, *states: kinds.train(layer, x, states, **call),
            autograph=False,
            jit_compile=jit_compile,
        )
        return graph(x, *states)

    kinds.assert_compiled_equals_loop(
        lambda compiled: build(LSTM, "layer", compiled=compiled),
        run=lambda layer: run(layer) if layer.compiled else kinds.train(layer, x, states, **call),
    )


@pytest.mark.parametrize("merge_mode", ["concat", None])
def test_bidirectional_passes_resets_and_the_mask_to_both_directions(merge_mode, tmp_path):
    inner = GRU.layer(UNITS, norm=LAYER_NORM, return_sequences=True)
    layer = keras_norm.Bidirectional(inner, merge_mode)
    x, resets = keras.Input((None, FEATURES)), keras.Input((None,), dtype="bool")
    model = keras.Model([x, resets], layer(keras.layers.Masking()(x), resets=resets))
    kinds.randomize(model)
    model.save(tmp_path / "model.keras")
    rows = np.where(MASK[..., None], data(GRU)[0], 0.0).astype("float32")
    expected = []
    for name, backwards in (("forward_layer", False), ("backward_layer", True)):
        apart = Apart(RESETS, MASK, backwards)
        alone = getattr(layer, name)(apart.split(rows, [])[0], mask=apart.mask)
        (y,) = apart.join([np.asarray(alone)])
        expected.append(y[:, ::-1] if backwards else y)
    expected = [np.concatenate(expected, axis=-1)] if merge_mode else expected
    for each in (model, keras.saving.load_model(tmp_path / "model.keras")):
        kinds.assert_close(keras.tree.flatten(each([rows, RESETS])), expected, 1e-6)


def test_bidirectional_refuses_resets_for_layers_of_keras():
    layer = keras_norm.Bidirectional(keras.layers.GRU(2), name="both")
    x = np.zeros((BATCH, TIME, FEATURES), "float32")
    layer(x)
    assert_refused(lambda: layer(x, resets=RESETS), "resets", "GRU in Bidirectional 'both'")
