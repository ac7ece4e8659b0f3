"""Splitting a batch into parts: sizes, and gradients compared with TensorFlow's."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.rnn.gradient import parts
from keras_norm.rnn.gradient.norms import RowNorm
from keras_norm.rnn.gradient.parts import Plan
from keras_norm.rnn.gradient.programs import Arguments, Setting, Vectors
from keras_norm.rnn.gradient.spec import Spec

BATCH, TIME, FEATURES, UNITS = 5, 7, 3, 4
COLUMNS = 3 * UNITS
LAYER, RMS = RowNorm(True, 1e-5), RowNorm(False, 1e-5)


def draw(*shape, seed=0, dtype="float64"):
    return tf.constant(np.random.default_rng([seed, *shape]).normal(size=shape), dtype)


def given(dtype="float64"):
    vectors = Vectors(*(draw(COLUMNS, seed=k) for k in range(4)), draw(UNITS), draw(UNITS, seed=1))
    kernels = draw(FEATURES, COLUMNS), draw(UNITS, COLUMNS)
    return Arguments(
        [draw(BATCH, TIME, FEATURES, dtype=dtype)],
        [draw(BATCH, UNITS, dtype=dtype)],
        *kernels,
        vectors,
    )


def spec_of(masks):
    """A GRU with LayerNorm in three slots and RMSNorm in recurrent_candidate_norm."""
    return Spec("gru", UNITS, (LAYER, LAYER), (LAYER, RMS), None, "float64", True, masks, 1)


def setting_of(masks):
    mask = tf.constant(np.random.default_rng(0).random((BATCH, TIME, 1)) < 0.7)
    return Setting(
        [], [mask], [draw(BATCH, FEATURES, seed=k) for k in range(masks)], [draw(BATCH, UNITS)]
    )


@pytest.mark.parametrize("sizes", [parts.ROWS, parts.LENGTHS], ids=["rows", "lengths"])
def test_sizes_are_rounded_up_to_the_next_size(sizes):
    assert sizes == sorted(sizes)
    for n in (1, 2, 5, 16, 17, 33, 1000, 10**6):
        rounded = int(parts._rounded(tf.constant(n), sizes))
        assert rounded == min(size for size in sizes if size >= n)


@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("number", [1, 2])
def test_splitting_pads_with_zeros_and_joining_removes_the_padding(number, open_sizes):
    x = draw(BATCH, TIME, FEATURES)
    parting = parts.parting_of(Plan(number, open_sizes, open_sizes, True), x)
    rows, length = int(parting.rows), int(parting.length)
    filled = (8, 8) if open_sizes else (BATCH + BATCH % number, TIME)
    assert (number * rows, length) == filled
    cut = parting.split_over_time(x)
    assert [part.shape for part in cut] == [(length, rows, FEATURES)] * number
    whole = np.concatenate(cut, axis=1)
    assert not whole[:, BATCH:].any()
    assert not whole[TIME:].any()
    np.testing.assert_array_equal(parting.join_over_time(*cut), x)
    np.testing.assert_array_equal(parting.join(*parting.split(x)), x)


@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("masks", [0, 1, 3], ids=["dry", "one mask", "a mask for each gate"])
def test_gradients_of_parts_match_tensorflow(masks, number, open_sizes):
    spec, setting, arguments = spec_of(masks), setting_of(masks), given()
    parting = parts.parting_of(Plan(number, open_sizes, open_sizes, True), arguments.xs[0])
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        cut = [part for part, _ in parts.parts_of(spec, parting, arguments, setting)]
    d = tf.nest.map_structure(lambda x: draw(*x.shape, seed=2), cut)
    expected = tape.gradient(cut, arguments, d)
    found = parts.gradient_of_parts(spec, parting, arguments, setting.input_dropout, d)
    for exact, ours in zip(tf.nest.flatten(expected), tf.nest.flatten(found), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-12)


def test_gradients_of_float16_arguments_are_float16():
    spec, setting, arguments = spec_of(0), setting_of(0), given("float16")
    parting = parts.parting_of(Plan(2, False, False, True), arguments.xs[0])
    cut = [part for part, _ in parts.parts_of(spec, parting, arguments, setting)]
    assert {x.dtype for x in tf.nest.flatten(cut)} == {tf.float64}
    found = parts.gradient_of_parts(spec, parting, arguments, [], cut)
    dtypes = [[x.dtype for x in tf.nest.flatten(a)] for a in (found, arguments)]
    assert dtypes[0] == dtypes[1]
