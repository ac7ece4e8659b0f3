"""Products of inputs and a kernel, with dropout."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.rnn.core.operations import project

RNG = np.random.default_rng(0)
KERNEL = RNG.normal(size=(3, 8))
MASKS = [2.0 * (RNG.random((5, 3)) < 0.5) for _ in range(4)]


@pytest.mark.parametrize("shape", [(5, 3), (4, 5, 3)], ids=["step", "sequence"])
@pytest.mark.parametrize("masks", [0, 1, 4])
def test_all_timesteps_share_the_masks_and_the_columns_of_each_gate_have_one_of_several(
    shape, masks
):
    x = RNG.normal(size=shape)
    blocks = np.split(KERNEL, max(masks, 1), axis=1)
    expected = [x * m @ k for m, k in zip(MASKS[:masks] or [1.0], blocks, strict=True)]
    actual = project(tf.constant(x), tf.constant(KERNEL), list(map(tf.constant, MASKS[:masks])))
    np.testing.assert_allclose(actual, np.concatenate(expected, axis=-1), atol=1e-12)
