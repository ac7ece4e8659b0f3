"""Dtype policies."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import LayerNormLSTM
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, MASK, UNITS

NORMS = {name: kinds.NORMS[name] for name in ("none", "layer", "timestep")}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_weights_are_orthogonal(dtype):
    """Keras' LSTM raises an error: no QR decomposition has bfloat16."""
    layer = LayerNormLSTM(UNITS, dtype=dtype)
    layer.build((None, 5, FEATURES))
    kernel = keras.ops.convert_to_numpy(keras.ops.cast(layer.cell.recurrent_kernel, "float32"))
    np.testing.assert_allclose(kernel @ kernel.T, np.eye(UNITS), rtol=0, atol=2e-2)
    assert layer.cell.recurrent_kernel.dtype == dtype


@pytest.mark.parametrize(
    ("kind", "norm", "policy", "atol"),
    [
        (kinds.GRU, "timestep", "bfloat16", 1e-1),
        (kinds.SIMPLE_RNN, "none", "bfloat16", 1e-1),
        (kinds.LSTM, "layer", "float16", 1e-2),
    ],
    ids=str,
)
def test_mixed_precision_results_and_gradients_are_close_to_float32(kind, norm, policy, atol):
    """Weights stay float32."""
    x, states = kinds.cast([kinds.inputs(), kinds.initial_states(kind)], "float32")
    found = []
    for dtype in ("float32", f"mixed_{policy}"):
        layer = kinds.build(kind, NORMS[norm], dtype=dtype)
        results, gradients = kinds.train(layer, x, states, MASK)
        found.append([results, gradients, [w.numpy() for w in layer.non_trainable_weights]])
        assert {w.dtype for w in layer.weights} <= {"float32", "int32"}
    (expected, expected_gradients, expected_statistics), (results, gradients, statistics) = found
    assert {keras.backend.standardize_dtype(r.dtype) for r in results} == {policy}
    kinds.assert_close([np.asarray(r, "float32") for r in results], expected, atol)
    kinds.assert_close(statistics, expected_statistics, atol)
    for actual, gradient in zip(gradients, expected_gradients, strict=True):
        scale = 1.0 + np.abs(gradient).max()
        assert np.abs(actual - gradient).max() / scale < 4 * atol


@pytest.mark.parametrize("compiled", ["auto", False])
def test_half_precision_is_rounded_only_outside_the_loop(compiled):
    """bfloat16 holds the weights and inputs exactly; rounding the result adds at most 2^-9."""

    def run(dtype):
        layer = kinds.LSTM.layer(
            UNITS, kinds.BATCH_NORMS["timestep"], dtype=dtype, compiled=compiled
        )
        kinds.built(layer)
        for weight in layer.trainable_weights:
            weight.assign(tf.cast(tf.cast(weight, "bfloat16"), "float32"))
        x = tf.cast(tf.cast(kinds.inputs(8, 10), "bfloat16"), "float32")
        return np.asarray(layer(x, training=True), "float32")

    np.testing.assert_allclose(run("mixed_bfloat16"), run("float32"), rtol=2**-8, atol=1e-5)


def test_the_global_dtype_policy_applies_to_cell_norms_and_states():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        layer = kinds.LSTM.layer(UNITS, norm=NORMS["timestep"], stateful=True)
    finally:
        keras.config.set_dtype_policy(before)
    first, second = layer(kinds.inputs()), layer(kinds.inputs())
    assert first.dtype == second.dtype == tf.bfloat16
    assert not np.allclose(*(tf.cast(y, "float32") for y in (first, second)))
    parts = [layer, layer.cell, *layer.cell.slot_layers().values()]
    assert {part.compute_dtype for part in parts} == {"bfloat16"}


@pytest.mark.parametrize("compiled", ["auto", False])
def test_outputs_are_finite_for_inputs_that_dropout_scales_beyond_float16(compiled):
    layer = LayerNormLSTM(4, dropout=0.5, dtype="mixed_float16", compiled=compiled, seed=1)
    assert np.isfinite(layer(np.full((2, 3, 5), 4e4, "float16"), training=True)).all()
