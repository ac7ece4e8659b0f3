"""Aligning the dimensions of a mask with those of a tensor."""

import keras
import numpy as np
import pytest

from keras_norm.ops.masks import align_mask
from tests.check_layer import assert_refused


@pytest.mark.parametrize(
    ("mask_shape", "shape", "axis", "expected"),
    [
        ((4,), (4, 3), 1, (4, 1)),
        ((4, 5), (4, 5, 3), 2, (4, 5, 1)),
        ((4, 5), (4, 3, 5), 1, (4, 1, 5)),
        ((4, 5, 6), (4, 5, 6, 3), 3, (4, 5, 6, 1)),
        ((5, 6), (4, 5, 6), 0, (1, 5, 6)),
        ((1, 5, 1), (4, 5, 6, 3), 3, (1, 5, 1, 1)),
        ((4, 4), (4, 4, 4), 1, (4, 1, 4)),  # both ways fit: the shape without the axis is chosen
    ],
)
def test_mask_is_expanded_to_broadcast(mask_shape, shape, axis, expected):
    mask = np.random.default_rng(0).random(mask_shape) < 0.5
    aligned = align_mask(mask, np.zeros(shape), axis)
    assert tuple(aligned.shape) == expected
    np.testing.assert_array_equal(np.squeeze(aligned), np.squeeze(mask))


def test_masks_of_numbers_become_booleans():
    aligned = align_mask(np.array([1.0, 0.0]), np.zeros((2, 3)), 1)
    assert aligned.dtype == "bool"
    assert np.ravel(aligned).tolist() == [True, False]


def test_masks_with_dynamic_sizes_are_aligned():
    x = keras.KerasTensor((None, None, 3))
    mask = keras.KerasTensor((None, None), dtype="bool")
    assert align_mask(mask, x, 2).shape == (None, None, 1)


@pytest.mark.parametrize(
    ("mask_shape", "shape", "fragments"),
    [((4,), (4, 5, 3), ["rank"]), ((4, 5, 3), (4, 5, 3), ["rank"]), ((4, 9), (4, 5, 3), [])],
)
def test_a_mask_of_another_rank_or_size_is_refused(mask_shape, shape, fragments):
    mask, x = np.ones(mask_shape, bool), np.zeros(shape)
    assert_refused(lambda: align_mask(mask, x, 2), *fragments, str(mask_shape), str(shape))
