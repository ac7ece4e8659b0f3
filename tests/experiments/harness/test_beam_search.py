"""Greedy and beam search agree with an exhaustive search."""

import itertools

import numpy as np
import pytest

from experiments.harness import beam_search
from experiments.harness.translation_pairs import END, PAD, START

TOKENS, LONGEST, SENTENCES = 6, 3, 4
TABLE = np.random.default_rng(0).random((1000, TOKENS)) ** 4  # the power makes few tokens likely
TABLE[:, [PAD, START]] = 0
TABLE /= TABLE.sum(axis=1, keepdims=True)
STATES = {"past": np.arange(SENTENCES)}


def step(last, states):
    """Return probabilities that depend on all tokens before and on the sentence."""
    past = (states["past"] * 7 + last) % 1000
    return TABLE[past], {"past": past}


def worth(sentence, number, power):
    """Return log p / n^power of tokens that end with END."""
    last, states, total = START, {"past": np.array([number])}, 0.0
    for token in sentence:
        found, states = step(np.array([last]), states)
        total += np.log(found[0, token])
        last = token
    return total / len(sentence) ** power


def every_sentence():
    words = [t for t in range(TOKENS) if t not in (PAD, START, END)]
    for length in range(LONGEST):
        for sentence in itertools.product(words, repeat=length):
            yield [*sentence, END]
    yield from map(list, itertools.product(words, repeat=LONGEST))  # truncated


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_a_beam_of_full_width_finds_the_most_likely_sentence(power):
    found = beam_search.beam(step, STATES, LONGEST, width=TOKENS**LONGEST, power=power)
    for number, sentence in enumerate(found):
        best = max(every_sentence(), key=lambda s, n=number: worth(s, n, power))
        assert sentence == [token for token in best if token != END]


def test_a_beam_of_width_one_equals_greedy_search():
    assert beam_search.beam(step, STATES, 20, width=1) == beam_search.greedy(step, STATES, 20)


def test_a_row_is_truncated_at_its_first_end():
    assert beam_search.cut(np.array([[5, 4, END, 5], [END, 4, 4, 4], [4, PAD, 5, 5]])) == [
        [5, 4],
        [],
        [4, 5, 5],
    ]
