"""Published files are read, split and converted to token ids."""

import keras
import numpy as np
import pytest

from experiments.harness import sentences

TEXTS = ["Who wrote it ?", "who knows", "Where is it ?"]


@pytest.mark.parametrize("dataset", sentences.DATASETS)
def test_each_sentence_is_always_in_one_part(dataset, folder):
    parts = sentences.load(dataset, folder)
    texts = [text for part in ("training", "validation", "test") for text in parts[part][0]]
    assert len(texts) == len(set(texts)) == {"TREC": 80, "SST": 120}.get(dataset, 40)
    keras.utils.set_random_seed(1)
    for part, (again, classes) in sentences.load(dataset, folder).items():
        np.testing.assert_array_equal(again, parts[part][0])
        numbers = np.array([int(text.split()[-1]) for text in again])
        np.testing.assert_array_equal(classes, numbers % (6 if dataset == "TREC" else 2))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("words", ["who", "it", "[UNK]"]),
        ("characters", [*"who it ", "[UNK]", "[UNK]", "[UNK]"]),
        ("subwords", ["▁who", "▁it", "▁", "[UNK]", "[UNK]", "[UNK]"]),
    ],
)
def test_the_tokens_come_from_the_training_sentences(tokens, expected):
    assert sentences.tokenizer_of(TEXTS, tokens, 100).encode("Who it XYZ").tokens == expected


def test_the_vocabulary_comes_from_the_used_training_sentences(folder):
    corpus = sentences.prepare("SST", folder, "words", 100, training=5)
    first = {part: ids[:, 0] for part, (ids, _) in corpus.parts.items()}
    assert first["training"].shape == (5,)
    assert (first["training"] > 1).all()
    # Each of these words occurs 40 times, but not in the training sentences.
    assert all((first[part] == 1).all() for part in ("validation", "test"))
    assert (corpus.vocabulary, corpus.classes) == (3, 2)
