"""No sentence is in two parts, and ids decode to their sentence."""

import numpy as np
import pytest

from experiments.harness import beam_search, translation_pairs

KINDS = (
    translation_pairs.CHARACTERS,
    translation_pairs.WORDS,
    translation_pairs.BYTE_PAIRS,
    translation_pairs.UNIGRAM,
)
ENGLISH = [f"Tom isn't {k} years old, is he?" for k in ("one", "two", "three", "four")] * 3
CHINESE = ["汤姆没有一岁。", "汤姆两岁了。", "他三岁。", "他四岁了。"] * 3


def sentences(part):
    return {text for pair in part for text in pair}


def test_no_sentence_is_in_two_parts():
    rng = np.random.default_rng(0)
    made = [(f"en{a}", f"zh{b}") for a, b in rng.integers(0, 1500, (1500, 2))]
    parts = translation_pairs.split(made)
    assert set(parts) == {"training", "validation", "test"}
    assert sum(map(len, parts.values())) == len(made)
    assert len(parts["training"]) > 1000
    assert not sentences(parts["training"]) & sentences(parts["test"])
    assert not sentences(parts["training"]) & sentences(parts["validation"])
    assert not sentences(parts["validation"]) & sentences(parts["test"])


def test_no_sentence_of_the_real_data_is_in_two_parts(data):
    parts = translation_pairs.split(translation_pairs.read(data))
    keys = {
        name: {translation_pairs._key(t) for t in sentences(part)} for name, part in parts.items()
    }
    assert not keys["training"] & keys["test"]
    assert min(map(len, parts.values())) > 900


@pytest.mark.parametrize("kind", KINDS)
def test_ids_decode_to_their_sentence(kind):
    tokens = translation_pairs.Tokens(
        translation_pairs.tokenizer_of(CHINESE, translation_pairs.CHARACTERS, 100),
        translation_pairs.tokenizer_of(ENGLISH, kind, 100),
    )
    ids = tokens.targets(ENGLISH)
    assert set(ids[:, 0]) == {translation_pairs.START}
    assert (np.sum(ids == translation_pairs.END, axis=1) == 1).all()
    assert tokens.written(beam_search.cut(ids[:, 1:])) == ENGLISH
