"""Products of inputs and a kernel, with dropout."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.rnn.core.operations import project

RNG = np.random.default_rng(0)
KERNEL = RNG.normal(size=(3, 8))
INPUTS = {"step": RNG.normal(size=(5, 3)), "sequence": RNG.normal(size=(4, 5, 3))}
MASKS = [2.0 * (RNG.random((5, 3)) < 0.5) for _ in range(4)]
every_rank = pytest.mark.parametrize("x", INPUTS.values(), ids=INPUTS)


@every_rank
def test_without_dropout_the_result_is_the_matrix_product(x):
    np.testing.assert_allclose(project(tf.constant(x), KERNEL), x @ KERNEL, atol=1e-12)


@every_rank
def test_all_gates_and_timesteps_share_a_single_mask(x):
    expected = (x * MASKS[0]) @ KERNEL
    actual = project(tf.constant(x), tf.constant(KERNEL), [tf.constant(MASKS[0])])
    np.testing.assert_allclose(actual, expected, atol=1e-12)


@every_rank
def test_each_gate_has_its_own_mask_if_there_are_several(x):
    gates = np.split(KERNEL, 4, axis=1)
    expected = [(x * m) @ k for m, k in zip(MASKS, gates, strict=True)]
    actual = project(tf.constant(x), tf.constant(KERNEL), [tf.constant(m) for m in MASKS])
    np.testing.assert_allclose(actual, np.concatenate(expected, axis=-1), atol=1e-12)
