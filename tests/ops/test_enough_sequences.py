"""Timesteps of a batch that have enough sequences for statistics of their own."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.enough_sequences import has_enough_sequences


@pytest.mark.parametrize(
    ("counts", "min_sequences", "enough"),
    [
        ([9, 9, 8, 7, 1, 0], 8, [1, 1, 1, 0, 0, 0]),
        ([9, 9, 8, 7, 2, 1], 2, [1, 1, 1, 1, 1, 0]),
        ([4, 4, 3, 4], 8, [1, 1, 0, 1]),  # a batch of four
        ([0, 1, 2, 3, 2], 8, [0, 0, 1, 1, 0]),  # padding on the left that counts
        ([1, 1, 1], 8, [0, 0, 0]),
        ([], 8, []),
    ],
)
def test_a_timestep_needs_min_sequences_or_as_many_as_before(counts, min_sequences, enough):
    counts = tf.constant(np.reshape(counts, (-1, 1)), "float32")
    found = has_enough_sequences(counts, min_sequences)
    np.testing.assert_array_equal(found[:, 0], np.array(enough, bool))
