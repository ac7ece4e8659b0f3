"""Drawings are read and padded, and padding does not change the nll of a drawing."""

import numpy as np
import pytest

from experiments import handwriting
from experiments.harness.likelihoods import bernoulli_nll, mixture_nll

RNG = np.random.default_rng(0)
MOVEMENTS = RNG.integers(-99, 99, (7, 3)).astype("int16")


@pytest.fixture
def folder(tmp_path):
    """Return a data folder with two drawings of 3 and 4 movements in each part."""
    (tmp_path / "strokes").mkdir()
    parts = {f"{p}_data": MOVEMENTS for p in ("train", "valid", "test")}
    lengths = {f"{p}_len": np.array([3, 4], "int32") for p in ("train", "valid", "test")}
    np.savez(tmp_path / "strokes" / "short_kanji.npz", **parts, **lengths)
    return tmp_path


def test_drawings_are_split_at_their_ends(folder):
    first, second = handwriting.drawings(folder / "strokes" / "short_kanji.npz", "valid")
    np.testing.assert_array_equal(first, MOVEMENTS[:3])
    np.testing.assert_array_equal(second, MOVEMENTS[3:])


def test_the_input_is_the_movement_before_the_target(folder):
    inputs, targets = handwriting.load("", None, folder)["training"]
    np.testing.assert_array_equal(inputs[:, 0], np.zeros((2, 3)))
    np.testing.assert_array_equal(inputs[:, 1:], targets[:, :-1, :3])
    np.testing.assert_array_equal(targets[..., 4].sum(axis=1), [3, 4])
    np.testing.assert_array_equal(targets[..., 3].argmax(axis=1), [2, 3])


def test_the_nll_covers_only_unpadded_movements(folder):
    _, targets = handwriting.load("", None, folder)["test"]
    outputs = RNG.normal(size=(2, handwriting.LONGEST, 122)).astype("float32")
    nats = mixture_nll(targets[..., :2], outputs[..., :-2])
    nats += bernoulli_nll(targets[..., 2], outputs[..., -2])
    nats += bernoulli_nll(targets[..., 3], outputs[..., -1])
    expected = [np.sum(nats[0, :3]), np.sum(nats[1, :4])]
    np.testing.assert_allclose(handwriting.nll(targets, outputs), expected, rtol=1e-5)
    assert handwriting.score(outputs, targets)["nll"] == pytest.approx(np.mean(expected))
