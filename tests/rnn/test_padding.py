"""Padding on either side changes no output at unmasked timesteps, no gradient and no statistic."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, GRU, LSTM, SIMPLE_RNN, UNITS

# The sequences have 4, 2 and 3 timesteps, with a masked timestep inside the last one.
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0]], bool)
BATCH, TIME = MASK.shape
PADDED = TIME + 3  # the number of timesteps after padding
# Position of the first timestep of each sequence: padded on the right, on the left, on both sides.
STARTS = 0, 3, 1
NORMS = {
    "layer": keras_norm.LayerNormalization(),
    "timestep": keras_norm.TimestepBatchNormalization(TIME - 1),
    "batch": keras_norm.BatchNormalization(),
}


def pad(x, starts, fill):
    """Place each sequence of x at its start, within PADDED timesteps."""
    padded = np.full((BATCH, PADDED, *x.shape[2:]), fill, x.dtype)
    for row, sequence, start in zip(padded, x, starts, strict=True):
        row[start : start + TIME] = sequence
    return padded


def forward(kind, norm, **options):
    return kind.layer(UNITS, norm=norm, return_sequences=True, **options)


def backward(kind, norm, **options):
    return forward(kind, norm, go_backwards=True, **options)


def bidirectional(kind, norm, **options):
    return keras.layers.Bidirectional(forward(kind, norm, **options), dtype=options.get("dtype"))


class Trained:
    """Results of a training step of stacked layers and of inference, at unmasked timesteps only."""

    def __init__(self, makes, kind, norm, starts=None, dtype="float64", **options):
        x, mask = kinds.draw(BATCH, TIME, FEATURES), MASK
        if starts is not None:
            x, mask = pad(x, starts, 9.0), pad(mask, starts, fill=False)
        layers, features = [make(kind, norm, dtype=dtype, **options) for make in makes], FEATURES
        for layer in layers:
            layer.build((BATCH, x.shape[1], features))
            features = layer.compute_output_shape((BATCH, x.shape[1], features))[-1]
            kinds.randomize(layer)
        # With go_backwards, the outputs have the order of the loop.
        order = mask[:, ::-1] if backward in makes else mask
        x, mask = kinds.cast(x, dtype.removeprefix("mixed_")), tf.constant(mask)

        def run(training):
            y = x
            for layer in layers:
                y = layer(y, mask=mask, training=training)
            return tf.cast(tf.boolean_mask(y, order), "float64")

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = run(training=True)
            loss = tf.reduce_sum(tf.sin(3.0 * y))
        weights = [v.value for layer in layers for v in layer.trainable_variables]
        dx, *self.gradients = tape.gradient(loss, [x, *weights])
        self.outputs = [y, run(training=False)]
        self.dx = tf.boolean_mask(dx, mask)
        self.statistics = [v for layer in layers for v in layer.non_trainable_weights]


@pytest.mark.parametrize(
    ("makes", "kind", "norm", "options"),
    [
        ([bidirectional], SIMPLE_RNN, "layer", {}),
        ([forward], LSTM, "timestep", {"compiled": False}),
        ([backward], GRU, "timestep", {"unroll": True}),
        ([bidirectional], GRU, "batch", {}),
        ([backward], SIMPLE_RNN, "timestep", {}),
        ([forward, bidirectional], LSTM, "timestep", {}),
    ],
    ids=["LayerNorm", "loop", "unrolled", "one row", "backward", "stacked"],
)
def test_padding_changes_no_output_no_gradient_and_no_statistic(makes, kind, norm, options):
    plain, padded = (Trained(makes, kind, NORMS[norm], s, **options) for s in (None, STARTS))
    for name in ("outputs", "dx", "gradients", "statistics"):
        kinds.assert_close(getattr(padded, name), getattr(plain, name), 1e-11)


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_padding_changes_low_precision_by_rounding_only(dtype):
    plain, padded = (
        Trained([forward], LSTM, NORMS["timestep"], starts, dtype) for starts in (None, STARTS)
    )
    kinds.assert_close(padded.outputs, plain.outputs, 2e-3 if "16" in dtype else 2e-5)
    kinds.assert_close(padded.statistics, plain.statistics, 2e-3 if "16" in dtype else 2e-5)


@pytest.mark.parametrize("zero_output_for_mask", [False, True])
def test_outputs_at_padding_are_those_of_keras(zero_output_for_mask):
    """Zeros before the first unmasked timestep, the previous output behind it, and the states."""
    options = {"return_state": True, "zero_output_for_mask": zero_output_for_mask}
    layer = kinds.built(forward(LSTM, NORMS["timestep"], dtype="float64", **options))
    x, mask = kinds.draw(BATCH, PADDED, FEATURES), pad(MASK, STARTS, fill=False)
    mask[1] = False  # a fully masked sequence keeps its initial states
    states = kinds.cast(kinds.initial_states(LSTM, BATCH))
    outputs, *last = (np.asarray(y) for y in layer(x, initial_state=states, mask=tf.constant(mask)))
    for t in range(PADDED):
        before = 0.0 if zero_output_for_mask or t == 0 else outputs[:, t - 1]
        repeated = np.broadcast_to(before, outputs[:, t].shape)
        np.testing.assert_array_equal(outputs[~mask[:, t], t], repeated[~mask[:, t]])
    kinds.assert_close([state[1] for state in last], [state[1] for state in states], 0)


def test_leading_padding_counts_if_the_argument_or_an_earlier_config_says_so():
    norm = keras_norm.TimestepBatchNormalization(PADDED, count_leading_padding=True)
    x, mask = kinds.draw(BATCH, TIME, FEATURES), np.ones((BATCH, TIME), bool)
    for make, sides in ((forward, [0]), (backward, [3])):
        layer = kinds.built(make(LSTM, norm, dtype="float64"))
        kinds.randomize_statistics(layer)
        unchanged = []
        for start in (0, 3):
            starts = [start] * BATCH
            padded, now = (tf.constant(pad(a, starts, 0)) for a in (x, mask))
            y = layer(padded, mask=now)
            first = 3 - start if make is backward else start
            if np.allclose(y[:, first : first + TIME], layer(x), rtol=0, atol=1e-12):
                unchanged.append(start)
        assert unchanged == sides


@pytest.mark.parametrize(
    "layer",
    [
        keras_norm.TimestepBatchNormalization(3),
        keras_norm.BatchNormLSTM(2, 3),
        keras_norm.BatchNormGRUCell(2, 3),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_config_without_the_argument_counts_leading_padding(layer):
    config = layer.get_config()
    assert not type(layer).from_config(config).count_leading_padding
    del config["count_leading_padding"]
    assert type(layer).from_config(config).count_leading_padding


def test_a_user_class_with_fixed_arguments_loads_without_the_argument():
    class Fixed(keras_norm.TimestepBatchNormalization):
        def __init__(self, rows):
            super().__init__(rows)

        def get_config(self):
            return {"rows": self.max_timesteps}

    assert not Fixed.from_config(Fixed(3).get_config()).count_leading_padding


@pytest.mark.parametrize("complete", [False, True], ids=["partial", "complete"])
def test_a_user_class_loads_with_the_earlier_value_only_if_it_writes_the_argument(complete):
    """A complete config without the argument is of an earlier revision; a partial one may not be.

    The norm in the slot of a cell is created from its config too.
    """

    class Own(keras_norm.TimestepBatchNormalization):
        def __init__(self, max_timesteps, **kwargs):
            super().__init__(max_timesteps, **kwargs)

        def get_config(self):
            whole = super().get_config()
            return whole if complete else {"max_timesteps": whole["max_timesteps"]}

    config = Own(3).get_config()
    assert not Own.from_config(config).count_leading_padding
    (norm, *_) = kinds.built(forward(LSTM, Own(3))).cell.slot_layers().values()
    assert not norm.count_leading_padding
    config.pop("count_leading_padding", None)
    assert Own.from_config(config).count_leading_padding == complete


def test_slots_that_count_differently_are_refused():
    norms = {
        "kernel_norm": keras_norm.TimestepBatchNormalization(3),
        "recurrent_norm": keras_norm.TimestepBatchNormalization(3, count_leading_padding=True),
    }
    with pytest.raises(ValueError, match=r"equal values of count_leading_padding.*kernel_norm"):
        keras_norm.NormLSTM(2, norm=norms)
