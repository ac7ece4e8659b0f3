"""Digits are binarized once, the bound agrees with SciPy, and drawings survive encoding."""

import numpy as np
import pytest
import scipy.stats

from experiments import draw
from experiments.harness import mnist

RNG = np.random.default_rng(0)


@pytest.fixture
def small(monkeypatch):
    """Return 40 digits of gray 0.25 for a small model."""
    gray = np.full((40, 28, 28, 1), 64, "uint8")
    parts = dict.fromkeys(("training", "validation", "test"), (gray, np.zeros(40, "int64")))
    monkeypatch.setattr(mnist, "_read", lambda folder: parts)
    for name, value in {"GLIMPSES": 2, "UNITS": 4, "LATENT": 3, "POINTS": 2}.items():
        monkeypatch.setattr(draw, name, value)
    return draw.load("", None, None)


def test_a_pixel_is_one_with_the_probability_of_its_gray(small):
    pictures, targets = small["training"]
    assert set(np.unique(pictures)) == {0, 1}
    assert pictures.mean() == pytest.approx(64 / 255, abs=0.01)
    np.testing.assert_array_equal(targets, pictures)
    np.testing.assert_array_equal(draw.load("", None, None)["training"][0], pictures)
    assert not np.array_equal(small["test"][0], pictures)


def test_the_bound_is_the_nll_by_scipy_plus_the_kl():
    outputs = RNG.normal(size=(6, 785)).astype("float32")
    targets = RNG.integers(0, 2, (6, 784)).astype("float32")
    chance = 1 / (1 + np.exp(-outputs[:, :-1].astype("float64")))
    expected = outputs[:, -1] - scipy.stats.bernoulli.logpmf(targets, chance).sum(axis=1)
    np.testing.assert_allclose(draw.bound(targets, outputs), expected, rtol=1e-5)
    found = draw.score(outputs, targets)
    assert found["bound"] == pytest.approx(expected.mean(), rel=1e-5)
    assert found["kl"] == pytest.approx(outputs[:, -1].mean(), rel=1e-5)
