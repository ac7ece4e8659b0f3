"""Pixels, initial states, and differences between training mode and inference."""

import numpy as np
import pytest

from experiments import first_batch, pixels
from experiments.harness import mnist
from experiments.harness.study import Arm
from tests.rnn import kinds

RNG = np.random.default_rng(0)
BLACK = 28  # pixels in a row


@pytest.fixture(autouse=True)
def small(monkeypatch):
    images = RNG.integers(1, 256, (5, 28, 28, 1), "uint8")
    images[:, 0] = 0
    parts = dict.fromkeys(("training", "validation", "test"), (images, np.arange(5)))
    monkeypatch.setattr(mnist, "_read", lambda folder: parts)
    monkeypatch.setattr(pixels, "UNITS", 6)


def test_permuted_digits_share_one_order_of_all_pixels():
    in_order, permuted = (
        pixels.load(task, None, None)["test"][0] for task in (pixels.IN_ORDER, pixels.PERMUTED)
    )
    assert in_order.shape == (5, 784, 1)
    np.testing.assert_array_equal(in_order[0, 28:56, 0] > 0, True)
    np.testing.assert_array_equal(np.sort(permuted, axis=1), np.sort(in_order, axis=1))
    assert (permuted != in_order).any()
    order = [np.flatnonzero(in_order[0] == value)[0] for value in permuted[0, -5:, 0]]
    assert set(permuted[1, -5:, 0]) & set(in_order[1, order, 0])


def test_the_candidate_starts_with_the_identity_and_the_gates_orthogonally():
    kernel = np.array(pixels.IdentityCandidate()((6, 24)))
    gates = np.split(kernel, 4, axis=1)
    np.testing.assert_array_equal(gates[2], np.eye(6))
    for gate in gates:
        np.testing.assert_allclose(gate @ gate.T, np.eye(6), atol=1e-6)
    assert np.abs(gates[0] - gates[1]).max() > 0.1


def test_only_batch_norm_predicts_other_classes_in_training_mode():
    x = np.random.default_rng(0).normal(size=(256, 5, 1)).astype("float32")
    found = {}
    for name in ("LN-LSTM", "BN-LSTM"):
        model = pixels.network(name, 0.0)
        kinds.randomize(model)
        kinds.randomize_statistics(model)
        found[name] = pixels.apart(model, {"test": (x, np.zeros(len(x)))})["apart"]
    assert found["LN-LSTM"].shape == (256,)
    assert not found["LN-LSTM"].any()
    assert found["BN-LSTM"].any()


def test_batch_norm_without_noise_has_no_finite_gradient_after_black_pixels(monkeypatch):
    monkeypatch.setattr(first_batch, "UPDATES", 1)
    monkeypatch.setattr(pixels, "PIXELS", 5 * BLACK)
    images = np.zeros((8, 28, 28, 1), "uint8")
    images[:, 4] = RNG.integers(0, 256, (8, 28, 1))
    monkeypatch.setattr(mnist, "_read", lambda folder: {"training": (images, np.arange(8))})
    found = first_batch.measure(Arm(pixels.IN_ORDER, "BN-LSTM", 8), 0)
    assert found == {"gradient": first_batch.MAX_POWER}
