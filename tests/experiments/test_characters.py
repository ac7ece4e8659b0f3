"""Texts are split into pieces and blocks, and bits agree with NumPy and Keras."""

import hashlib

import keras
import numpy as np
import pytest

from experiments import characters
from experiments.harness.study import Arm
from tests.rnn import kinds

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(characters, "UNITS", 4)
    monkeypatch.setattr(characters, "BLOCK", 800)


def made(*_):
    return "".join(RNG.choice(list("abcd\n"), 2500))


def test_the_targets_are_the_next_characters(monkeypatch):
    monkeypatch.setattr(characters, "text", made)
    parts = characters.load("made", None, None)
    assert {part: x.shape for part, (x, _) in parts.items()} == {
        "training": (24, 100),
        "validation": (24, 100),
        "test": (3, 800),
    }
    for x, y in parts.values():
        np.testing.assert_array_equal(np.append(x.ravel()[1:], y[-1, -1]), y.ravel())


def test_each_piece_of_a_block_starts_from_zero_states(monkeypatch):
    monkeypatch.setattr(characters, "text", made)
    monkeypatch.setattr(characters, "stream", lambda model, ids: np.zeros(1))
    parts = characters.load("made", None, None)
    model = characters.build(Arm("made", "LSTM"), parts)
    kinds.randomize(model)
    found = characters.measure(model, parts)
    lstm = keras.layers.LSTM(4, return_sequences=True)
    lstm.build((None, None, 5))
    _, _, own, softmax = model.layers
    lstm.set_weights(own.get_weights())
    x, y = parts["test"]

    def bits(length):
        one_hot = np.eye(5, dtype="float32")[x.reshape(-1, length)]
        right = np.take_along_axis(np.array(softmax(lstm(one_hot))), y.reshape(-1, length, 1), -1)
        return -np.log2(right).reshape(len(x), -1).mean(axis=1)

    for length in (100, 200, 400):
        np.testing.assert_allclose(found[f"bits_{length}"], bits(length), rtol=1e-4)
    np.testing.assert_allclose(found["beyond"], bits(800) - bits(100), atol=1e-4)


def test_the_characters_are_those_of_the_published_file(data):
    text = characters.text(characters.PENN, "training", data)
    # Git's name of ptb.char.train.txt in github.com/tomsercu/lstm.
    published = (" ".join(text) + " ").encode()
    blob = hashlib.sha1(b"blob %d\0" % len(published) + published).hexdigest()
    assert blob == "84b890a87aed6ad2989aa12d03f1129c41d727b2"
