"""Cutting batches into ghost batches."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops import ghosts


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
def test_ghosts_are_as_equal_as_whole_rows_allow(batch, size, expected):
    x = np.arange(2.0 * batch).reshape(batch, 2)
    cut, alive = ghosts.split(tf.constant(x), None, size)
    assert tuple(cut.shape) == (*expected, 2)
    np.testing.assert_array_equal(cut[alive[..., 0]], x)


def test_rows_that_fill_the_last_ghost_are_masked():
    _, alive = ghosts.split(tf.ones((5, 2)), None, 4)
    assert alive[..., 0].numpy().tolist() == [[True, True, True], [True, True, False]]


def test_masks_are_cut_with_the_rows():
    mask = np.array([[1, 0], [1, 1], [0, 0]], bool)[..., None]
    _, alive = ghosts.split(tf.ones((3, 2, 4)), tf.constant(mask), 2)
    expected = [[[True, False], [True, True]], [[False, False], [False, False]]]
    assert np.squeeze(alive, -1).tolist() == expected


@pytest.mark.parametrize("batch", [1, 4, 5])
def test_merge_undoes_split(batch):
    x = np.arange(6.0 * batch).reshape(batch, 3, 2)
    cut, _ = ghosts.split(tf.constant(x), None, 2)
    np.testing.assert_array_equal(ghosts.merge(cut, batch), x)


def test_unknown_batch():
    @tf.function(input_signature=[tf.TensorSpec((None, 2))])
    def there_and_back(x):
        return ghosts.merge(ghosts.split(x, None, 2)[0], tf.shape(x)[0])

    for batch in (1, 2, 5):
        x = np.arange(2.0 * batch, dtype="float32").reshape(batch, 2)
        np.testing.assert_array_equal(there_and_back(tf.constant(x)), x)
