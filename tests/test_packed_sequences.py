"""Sequences packed in rows keep their values, and layers compute the outputs of each one alone."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm import pack_sequences
from tests.check_layer import assert_refused


def draw_sequences(lengths, *shape, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, *shape)).astype("float32") for n in lengths]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_sequences_come_back_from_few_rows(shape, seed):
    lengths = np.random.default_rng(seed).integers(1, 20, 50)
    sequences = draw_sequences(lengths, *shape, seed=seed)
    packed = pack_sequences(sequences, 24)
    rows, needed = len(packed.rows), -(-lengths.sum() // 24)
    assert needed <= rows <= 11 / 9 * needed + 1  # the bound of first-fit decreasing
    assert packed.rows.shape == (rows, 24, *shape)
    assert packed.mask.sum() == lengths.sum()
    assert packed.resets.sum() == packed.is_last.sum() == 50
    assert (packed.rows[~packed.mask] == 0).all()
    for given, found in zip(sequences, packed.unpack(packed.rows), strict=True):
        np.testing.assert_array_equal(found, given)
    last = packed.unpack_last(packed.rows)
    np.testing.assert_array_equal(last, [sequence[-1] for sequence in sequences])
    assert packed.is_last[packed.resets].sum() == (lengths == 1).sum()


def test_other_sequences_are_packed_in_the_same_places():
    packed = pack_sequences([[5, 3, 8], [2, 9], [7]], 4)
    np.testing.assert_array_equal(packed.rows, [[5, 3, 8, 7], [2, 9, 0, 0]])
    assert packed.rows.dtype == np.array([1]).dtype
    labels = packed.pack([np.full(3, 1.5), np.full(2, 2.5), np.full(1, 3.5)])
    np.testing.assert_array_equal(labels, [[1.5, 1.5, 1.5, 3.5], [2.5, 2.5, 0, 0]])
    np.testing.assert_array_equal(packed.unpack_last(labels), [1.5, 2.5, 3.5])
    text = "3 sequences in 2 rows of 4 timesteps, 75% of the timesteps filled"
    assert repr(packed) == f"<PackedSequences of {text}>"


def test_the_default_length_is_that_of_the_longest_sequence():
    assert pack_sequences([[1], [2, 3, 4], [5, 6]]).rows.tolist() == [[2, 3, 4], [5, 6, 1]]


def test_one_training_step_equals_that_of_padded_rows():
    """Each sequence has a label: the loss is the cross entropy at its last timestep."""
    lengths = np.random.default_rng(0).integers(2, 9, 12)
    sequences, labels = draw_sequences(lengths, 4), np.arange(12) % 3
    packed = pack_sequences(sequences, 11)
    padded = keras.utils.pad_sequences(sequences, dtype="float32", padding="post")
    mask = np.arange(padded.shape[1]) < lengths[:, None]

    def build(time):
        keras.utils.set_random_seed(0)
        x, mask = keras.Input((time, 4)), keras.Input((time,), dtype="bool")
        resets = keras.Input((time,), dtype="bool")
        y = keras_norm.LayerNormGRU(5, return_sequences=True)(x, mask=mask, resets=resets)
        model = keras.Model([x, mask, resets], keras.layers.Dense(3)(y))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
        model.compile(keras.optimizers.SGD(0.1), loss)
        return model

    by_timestep = [np.full(n, label) for n, label in zip(lengths, labels, strict=True)]
    inputs = [packed.rows, packed.mask, packed.resets]
    of_rows = build(11)
    of_rows.train_on_batch(inputs, packed.pack(by_timestep), sample_weight=packed.is_last)
    apart = build(padded.shape[1])
    targets = np.broadcast_to(labels[:, None], mask.shape)
    last = np.arange(padded.shape[1]) == lengths[:, None] - 1
    apart.train_on_batch([padded, mask, np.zeros_like(mask)], targets, sample_weight=last)
    for found, expected in zip(of_rows.get_weights(), apart.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    outputs = of_rows.predict(inputs, verbose=0)
    expected = apart.predict([padded, mask, np.zeros_like(mask)], verbose=0)
    np.testing.assert_allclose(packed.unpack_last(outputs), expected[last], rtol=0, atol=1e-5)


REFUSED = {
    "none": ([], None, ["at least one sequence"]),
    "empty": ([[1], []], None, ["sequence 1", "(0,)"]),
    "number": ([1, 2], None, ["sequence 0", "()"]),
    "too long": ([[1], [1, 2, 3]], 2, ["length=2", "sequence 1 has 3 timesteps"]),
    "features": (draw_sequences([2], 3) + draw_sequences([2], 4), None, ["(3,)", "(4,)"]),
}


@pytest.mark.parametrize(("sequences", "length", "fragments"), REFUSED.values(), ids=REFUSED)
def test_sequences_that_cannot_be_packed_raise(sequences, length, fragments):
    assert_refused(lambda: pack_sequences(sequences, length), *fragments)


def test_outputs_and_targets_of_other_shapes_raise():
    packed = pack_sequences([[1, 2], [3]], 3)
    for unpack in (packed.unpack, packed.unpack_last):
        assert_refused(lambda f=unpack: f(np.zeros((1, 2))), "(1, 3)", "(1, 2)", "return_sequences")
    assert_refused(
        lambda: packed.pack([[1, 2], [3, 4]]), "sequences of the lengths ", "(2,)", "[2, 1]"
    )
    assert_refused(lambda: packed.pack([[1, 2]]), "pack needs 2 sequences", "1 arrays")
