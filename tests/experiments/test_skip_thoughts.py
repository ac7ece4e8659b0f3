"""Skip-thoughts predict neighboring sentences, and tasks are tokenized like the text."""

import numpy as np
import pytest

from experiments import skip_thoughts
from experiments.harness.study import Arm
from experiments.skip_thoughts import PREDICTED, TEXT
from tests.experiments import toy_study

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's a mr. who doesn't, can't !", "it 's a mr. who does n't ca n't"),
        ("they do n't have so-so 'hits' .", "they do n't have so-so 'hits"),
        ("In 1,995 u.s. games 2-1", "in N N u.s. games N"),
    ],
)
def test_words_are_split_as_in_the_penn_treebank(text, expected):
    assert skip_thoughts.words(text) == expected.split()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a data folder with small files."""
    toy_study.texts(tmp_path, monkeypatch)
    return tmp_path


def test_a_sentence_has_its_neighbors_as_targets(folder):
    parts = skip_thoughts.load(TEXT, None, folder)
    x, counts = parts["training"]
    assert len(counts) == 18
    np.testing.assert_array_equal(x["sentence"][:-1], x["before"][1:])
    np.testing.assert_array_equal(x["sentence"][1:], x["after"][:-1])
    np.testing.assert_array_equal(counts, [10] * 18)  # number, k, is, unknown, END, twice
    assert set(x["sentence"][:, 3]) == {1}


def test_the_costs_depend_only_on_earlier_words():
    """An untrained model has log(PREDICTED) nats per word, and 0 after the end."""
    model = skip_thoughts.build(Arm(TEXT, "LN-GRU"), {})
    x = {name: RNG.integers(2, PREDICTED, (3, 6)) for name in ("sentence", "before", "after")}
    x["after"][1, 4:] = 0
    nats = np.array(model(x))
    assert nats.shape == (3, 2, 6)
    assert not nats[1, 1, 4:].any()
    unpadded = nats[nats > 0]
    assert unpadded.size == 34
    np.testing.assert_allclose(unpadded.mean(), np.log(PREDICTED), rtol=0.02)
    changed = dict(x, before=np.where(np.arange(6) == 3, 2, x["before"]))
    other = np.array(model(changed))
    np.testing.assert_allclose(other[:, 0, :3], nats[:, 0, :3], rtol=1e-5)
    assert (other[:, 0, 4:] != nats[:, 0, 4:]).all()
    np.testing.assert_allclose(other[:, 1], nats[:, 1], rtol=1e-5)


def test_rare_words_are_predicted_as_unknown():
    model = skip_thoughts.build(Arm(TEXT, "GRU"), {})
    x = {name: RNG.integers(2, PREDICTED, (2, 4)) for name in ("sentence", "before", "after")}
    rare, unknown = (
        model({**x, "after": np.where(np.arange(4) == 1, word, x["after"])})
        for word in (PREDICTED + 5, 1)
    )
    np.testing.assert_array_equal(rare, unknown)


def test_the_loss_averages_over_sentences_and_the_score_over_words():
    nats, counts = np.array([[[1.0, 2.0], [3.0, 0.0]], [[4.0, 0.0], [2.0, 0.0]]]), np.array([3, 2])
    np.testing.assert_allclose(skip_thoughts.mean_cost(counts, nats), [2.0, 3.0])
    assert skip_thoughts.score(nats, counts) == {"nll": 12 / 5}
