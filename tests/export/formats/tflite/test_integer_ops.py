"""A SavedModel rewritten for integers computes the outputs of the original, in TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.tflite.integer_ops import rewrite_for_integers

RANGE = np.iinfo(np.int32)


def compute(x, n, m):
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    return {
        "negative": tf.nn.relu(-x),
        "square": tf.square(centred) + 1.0,
        "difference": tf.math.squared_difference(x, tf.reduce_mean(x, -1, keepdims=True)),
        "sum": tf.reduce_sum(x, -1),
        "sums": tf.reduce_sum(x[:, None] * x[:, :, None], [1, 2], keepdims=True),
        "sum of the batch": tf.reduce_sum(x, 0),
        "bounded": tf.math.log(tf.maximum(x, 1e-5)) + tf.minimum(1e6, x),
        "clipped": tf.clip_by_value(x, -0.5, 0.5),
        "==": n == m,
        "!=": tf.where(n != m, x, -x),
        "<": n < m,
        "<=": n <= m,
        ">": tf.cast(n, tf.int64) > tf.cast(m, tf.int64),
        ">=": n >= m,
        "squares of integers": n * n - tf.square(m),
    }


@pytest.fixture
def folder(tmp_path):
    traced = tf.function(
        compute,
        input_signature=[
            tf.TensorSpec([None, 5], dtype, name=name)
            for name, dtype in {"x": tf.float32, "n": tf.int32, "m": tf.int32}.items()
        ],
    )
    tf.saved_model.save(tf.Module(), str(tmp_path), {"f": traced.get_concrete_function()})
    return tmp_path


def run(folder):
    rng = np.random.default_rng(0)
    n, m = rng.integers(-2, 3, (2, 9, 5)).astype("int32")
    n[0], m[0] = RANGE.min, [RANGE.min, RANGE.max, 0, 1, -1]
    n[1], m[1] = RANGE.max, [RANGE.min, RANGE.max, 0, 1, -1]
    x = rng.normal(size=(9, 5)).astype("float32")
    outputs = tf.saved_model.load(str(folder)).signatures["f"](
        x=tf.constant(x), n=tf.constant(n), m=tf.constant(m)
    )
    return {name: output.numpy() for name, output in outputs.items()}


@pytest.mark.parametrize("bits", [8, 16])
def test_a_rewritten_graph_computes_equal_outputs(folder, bits):
    expected = run(folder)
    rewrite_for_integers(folder, bits)
    actual = run(folder)
    assert actual.keys() == expected.keys()
    for name, wanted in expected.items():
        if wanted.dtype == np.float32:
            np.testing.assert_allclose(actual[name], wanted, rtol=1e-5, atol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(actual[name], wanted, err_msg=name)


def test_16_bits_replace_all_wrong_or_missing_operations(folder):
    rewrite_for_integers(folder, 16)
    ops = SavedModelFile(folder).ops
    compared = {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"}
    assert not {"Neg", "SquaredDifference", *compared} & ops.keys()
    assert ops["Square"] == ["Square_1"]  # of integers
    assert len(ops["Sum"]) == 1  # over the batch, whose size is open
    assert all("clip_by_value" in node for node in ops["Maximum"])


def test_8_bits_replace_only_bounds_outside_the_scale(folder):
    before = SavedModelFile(folder).ops
    rewrite_for_integers(folder, 8)
    after = SavedModelFile(folder).ops
    for op in ("Neg", "Square", "SquaredDifference", "Sum", "Less"):
        assert after[op] == before[op]
    assert (len(before["Maximum"]), len(after["Maximum"])) == (2, 1)
