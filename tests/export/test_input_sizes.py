"""The sizes of inputs that a norm of W x removes."""

import io

import keras
import numpy as np
import pytest
import rich.console

import keras_norm
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.input_sizes import measure_input_sizes
from keras_norm.export.normalization_table import summary_tables
from keras_norm.export.report.terminal import to_rich
from keras_norm.export.signature import input_specs

RNG = np.random.default_rng(0)
# 40 samples of amplitude 1 and 40 of amplitude 10; each timestep has a size of 1 or 10.
DIRECTIONS = RNG.normal(size=(80, 5, 8))
AMPLITUDES = np.repeat([1.0, 10.0], 40)[:, None, None]
X = AMPLITUDES * DIRECTIONS / np.linalg.norm(DIRECTIONS, axis=-1, keepdims=True)


def layer_norm_lstm(name="lstm", **options):
    return keras_norm.LayerNormLSTM(4, name=name, **options)


def measured(*layers, x=X, batch=None):
    model = keras.Sequential([keras.Input((None, 8), batch_size=batch), *layers])
    return measure_input_sizes(model, read_samples(input_specs(model), x))


def test_the_sizes_of_all_timesteps_are_measured():
    (sizes,) = measured(layer_norm_lstm())
    assert (sizes.layer, sizes.slot, sizes.norm) == ("lstm", "kernel_norm", "LayerNormalization")
    assert (sizes.low, sizes.high) == pytest.approx((1, 10), rel=1e-5)
    assert sizes.spread == pytest.approx(4.5 / 5.5, rel=1e-5)


def test_masked_timesteps_are_left_out():
    x = X.copy()
    x[:40] = 0
    (sizes,) = measured(keras.layers.Masking(), layer_norm_lstm(), x=x)
    assert (sizes.low, sizes.high, sizes.spread) == pytest.approx((10, 10, 0), abs=1e-5)
    assert not measured(keras.layers.Masking(), layer_norm_lstm(), x=0 * x)


def test_the_timesteps_of_a_layer_with_resets_are_measured():
    x, resets = keras.Input((None, 8), name="x"), keras.Input((None,), dtype="bool", name="resets")
    model = keras.Model([x, resets], layer_norm_lstm()(keras.layers.Masking()(x), resets=resets))
    given = {"x": X.copy(), "resets": np.zeros((80, 5), bool)}
    given["x"][:40] = 0.0
    (sizes,) = measure_input_sizes(model, read_samples(input_specs(model), given))
    assert (sizes.low, sizes.high) == pytest.approx((10, 10), rel=1e-5)


def test_a_static_batch_size_is_filled_with_samples():
    (sizes,) = measured(layer_norm_lstm(), x=X[38:41], batch=4)  # 1, 1, 10, 1
    assert (sizes.low, sizes.spread) == pytest.approx((1, np.std([1, 1, 10, 1]) / 3.25), rel=1e-5)


@pytest.mark.parametrize(
    "layers",
    [
        lambda: [layer_norm_lstm(return_sequences=True), layer_norm_lstm("second")],
        lambda: [keras.layers.Dropout(0.5), keras.layers.Normalization(), layer_norm_lstm()],
        lambda: [keras.Sequential([layer_norm_lstm()], name="encoder")],
        lambda: [keras.layers.RNN(keras_norm.LayerNormLSTMCell(4), name="rnn")],
        lambda: [keras_norm.NormGRU(4, keras_norm.RMSNormalization())],
        lambda: [layer_norm_lstm(dtype="mixed_float16")],
    ],
    ids=["first of two", "after Normalization", "in a model", "in RNN", "RMSNorm", "float16"],
)
def test_a_layer_that_reads_the_inputs_is_measured(layers):
    (sizes,) = measured(*layers())
    assert sizes.spread == pytest.approx(4.5 / 5.5, rel=1e-3)


def test_both_directions_are_measured():
    layer = keras.layers.Bidirectional(layer_norm_lstm(), name="both")
    assert [sizes.layer for sizes in measured(layer)] == ["both/forward_lstm", "both/backward_lstm"]


@pytest.mark.parametrize(
    "layers",
    [
        lambda: [keras.layers.Dense(8, "tanh"), layer_norm_lstm()],
        lambda: [layer_norm_lstm(norm_form="joint")],
        lambda: [keras_norm.NormLSTM(4, {"state_norm": keras_norm.LayerNormalization()})],
        lambda: [keras_norm.BatchNormLSTM(4, 5)],
        lambda: [keras.layers.LSTM(4)],
    ],
    ids=["Dense before", "joint form", "no kernel_norm", "BatchNorm", "no norm"],
)
def test_a_layer_that_keeps_the_sizes_is_left_out(layers):
    assert not measured(*layers())


@pytest.mark.parametrize(("x", "advised"), [(X, True), (X / AMPLITUDES, False)])
def test_inspect_advises_if_the_sizes_differ(x, advised):
    model = keras.Sequential([keras.Input((None, 8)), layer_norm_lstm()])
    samples = read_samples(input_specs(model), x)
    console = rich.console.Console(file=io.StringIO(), width=80)
    console.print(*to_rich(summary_tables(model, samples)), sep="\n")
    text = " ".join(console.file.getvalue().split())
    assert "LayerNormalization, kernel_norm" in text
    assert ("lstm: the inputs differ in scale" in text) == advised
