"""Splitting batches into ghost batches, and merging them."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.ghost_batches import merge_batch, split_batch


@pytest.mark.parametrize(
    ("batch", "size", "expected"),
    [
        (6, 3, (2, 3)),
        (6, 6, (1, 6)),
        (6, 9, (1, 6)),
        (7, 3, (3, 3)),
        (5, 4, (2, 3)),
        (3, 1, (3, 1)),
    ],
)
def test_ghost_batches_have_equal_sizes_after_padding(batch, size, expected):
    x = np.arange(2.0 * batch).reshape(batch, 2)
    ghosts, unmasked = split_batch(tf.constant(x), None, size)
    assert tuple(ghosts.shape) == (*expected, 2)
    np.testing.assert_array_equal(ghosts[unmasked[..., 0]], x)


def test_padding_rows_of_the_last_ghost_batch_are_masked():
    _, unmasked = split_batch(tf.ones((5, 2)), None, 4)
    assert unmasked[..., 0].numpy().tolist() == [[True, True, True], [True, True, False]]


def test_masks_are_split_with_the_rows():
    mask = np.array([[1, 0], [1, 1], [0, 0]], bool)[..., None]
    _, unmasked = split_batch(tf.ones((3, 2, 4)), tf.constant(mask), 2)
    expected = [[[True, False], [True, True]], [[False, False], [False, False]]]
    assert np.squeeze(unmasked, -1).tolist() == expected


def test_merging_restores_a_batch_of_static_or_dynamic_size():
    def split_and_merge(x):
        return merge_batch(split_batch(x, None, 2)[0], tf.shape(x)[0])

    graph = tf.function(split_and_merge, input_signature=[tf.TensorSpec((None, 3, 2), "float64")])
    for batch in (1, 4, 5):
        x = np.arange(6.0 * batch).reshape(batch, 3, 2)
        for run in (split_and_merge, graph):
            np.testing.assert_array_equal(run(tf.constant(x)), x)
