"""The functions that replace functions of keras_norm in a TFLite file, in TensorFlow."""

import functools
from contextlib import nullcontext
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import LayerNormalization
from keras_norm.export.formats.tflite.tflite_loop import BLOCK, TFLITE_FUNCTIONS
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.ops import kernels
from keras_norm.ops.scan import scan
from keras_norm.rnn.core import operations
from keras_norm.substitution import substituted_functions
from tests.ops.test_scan import STEPS, draw, run
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, KINDS, LSTM

for_tflite = partial(substituted_functions, TFLITE_FUNCTIONS)

SIZES = [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 4 * BLOCK - 5]


def graph_of_scan(shape):
    spec = tf.TensorSpec(shape, "float64")
    return tf.function(partial(run, scan), autograph=False).get_concrete_function(spec)


@functools.cache
def graph_of_scan_for_tflite(shape, training):
    """Trace a scan. A graph with a dynamic shape serves the tests of all sizes."""
    with for_tflite():
        call = tf.function(partial(run, partial(scan, training=training)), autograph=False)
        return call.get_concrete_function(tf.TensorSpec(shape, "float64"))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("time", "static"),
    [*((time, False) for time in SIZES), *((time, True) for time in (1, BLOCK + 1, 2 * BLOCK))],
)
def test_the_scan_returns_the_last_carry_and_all_ys(time, static, training):
    x = draw(time)
    graph = graph_of_scan_for_tflite((time, 2, 3) if static else (None, None, 3), training)
    (total, count), (totals, squares) = graph(tf.constant(x))
    np.testing.assert_allclose(totals, np.cumsum(x, axis=0), atol=1e-12)
    np.testing.assert_array_equal(total, totals[-1])
    np.testing.assert_array_equal(count, np.full((2, 3), time))
    np.testing.assert_allclose(squares, (x * x).sum(axis=1), atol=1e-12)


def test_a_step_of_the_scan_may_have_no_ys():
    x = draw(STEPS + 1)
    with for_tflite():
        (total,), ys = scan(
            lambda carry, xs: ([carry[0] + xs[0]], []),
            [tf.constant(x)],
            [tf.zeros([2, 3], x.dtype)],
            [],
        )
    np.testing.assert_allclose(total, x.sum(axis=0), atol=1e-12)
    assert ys == []


@pytest.mark.parametrize("target", ["TFLite", "another format"])
def test_only_the_scan_for_tflite_uses_no_tensor_list(target):
    """TFLite has no tensor list with a dynamic batch."""
    with for_tflite() if target == "TFLite" else nullcontext():
        definition = graph_of_scan((None, 2, 3)).graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    lists = [node.op for node in nodes if node.op.startswith("TensorList")]
    assert bool(lists) == (target != "TFLite")


def test_a_file_has_no_fused_kernel_of_batch_norm():
    inputs = keras.KerasTensor((64, 128, 256))
    assert kernels.uses_fused_batch_norm(inputs, 2, "inference")
    with for_tflite():
        assert not kernels.uses_fused_batch_norm(inputs, 2, "inference")


def test_products_of_all_timesteps_are_unchanged():
    x, kernel = draw(5), tf.constant(draw(3, batch=4)[:, :, 0])
    expected = operations.project(tf.constant(x), kernel)
    with for_tflite():
        np.testing.assert_allclose(operations.project(x, kernel), expected, atol=1e-12)
        np.testing.assert_allclose(operations.project(x[0], kernel), expected[0], atol=1e-12)


def build(kind, norm, **options):
    """Build a float64 layer with random weights and moving statistics."""
    layer = kinds.build(kind, norm, **options)
    kinds.randomize_statistics(layer)
    return layer


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("mask", kinds.MASKS.values(), ids=kinds.MASKS)
@pytest.mark.parametrize("norm", ["layer", "timestep"])
def test_layers_match_the_equations(kind, norm, mask):
    layer = build(kind, kinds.NORMS[norm])
    with portable_layers(layer, TFLITE_FUNCTIONS):
        kinds.assert_follows_oracle(layer, mask)


def test_layers_update_moving_statistics():
    layer, other = (build(LSTM, kinds.BATCH_NORMS["timestep"]) for _ in range(2))
    expected = other(kinds.inputs(), training=True)
    with portable_layers(layer, TFLITE_FUNCTIONS):
        kinds.assert_close(layer(kinds.inputs(), training=True), expected)
    kinds.assert_close(kinds.statistics(layer), kinds.statistics(other))


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_inference_graphs_have_no_square_operations(kind, norm):
    """TFLite does not support SQUARE in 16 bits."""
    layer = kinds.build(kind, kinds.PER_SAMPLE_NORMS[norm], unroll=True)
    before = LayerNormalization()
    before.build((1, 1, FEATURES))
    with portable_layers(layer, TFLITE_FUNCTIONS):
        call = tf.function(lambda x: layer(before(x)), autograph=False)
        graph = call.get_concrete_function(tf.TensorSpec((1, 1, FEATURES), layer.dtype)).graph
    types = {operation.type for operation in graph.get_operations()}
    assert "Mul" in types
    assert not types & {"Square", "SquaredDifference", "Pow"}
