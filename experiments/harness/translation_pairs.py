"""Pairs of a Chinese and an English sentence, split without leakage, and their tokenizers."""

import dataclasses
import gzip
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE, Unigram, WordLevel
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordLevelTrainer

from experiments.harness import data

PAD, UNKNOWN, START, END = range(4)
SPECIAL = ["[PAD]", "[UNK]", "[START]", "[END]"]
LONGEST = {"english": 32, "chinese": 14}  # characters
SHARES = {"validation": 0.05, "test": 0.05}
CHARACTERS, WORDS, BYTE_PAIRS, UNIGRAM = "characters", "words", "BPE", "unigram"

# (English, Chinese)
Pairs = list[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The tokenizers of both languages."""

    chinese: Tokenizer
    english: Tokenizer

    def sources(self, sentences: Sequence[str]) -> np.ndarray:
        """Return the ids of Chinese sentences, padded with zeros on the right."""
        return rows([e.ids for e in self.chinese.encode_batch(list(sentences))])

    def targets(self, sentences: Sequence[str]) -> np.ndarray:
        """Return the ids of English sentences between START and END, padded on the right."""
        found = self.english.encode_batch(list(sentences))
        return rows([[START, *e.ids, END] for e in found])

    def written(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """Return the English sentences of ids."""
        return self.english.decode_batch([list(row) for row in ids])


def rows(ids: Sequence[Sequence[int]]) -> np.ndarray:
    """Pad rows of ids to the longest row."""
    table = np.full((len(ids), max(map(len, ids))), PAD, "int32")
    for row, found in zip(table, ids, strict=True):
        row[: len(found)] = found
    return table


def read(folder: pathlib.Path | None) -> Pairs:
    """Read the short pairs of a Tatoeba file and of the Tatoeba data set in TFDS."""
    path = data.file("translation_cmn_eng", "cmn.txt.gz", folder)
    with (
        data.reading("translation_cmn_eng", path),
        gzip.open(path, "rt", encoding="utf-8") as lines,
    ):
        pairs = [(line.split("\t")[0], line.split("\t")[1]) for line in lines]
    for row in data.rows_from_tfds("tatoeba/tatoeba_zh", "train", folder):
        chinese, english = (row[f"{side}_sentence"].decode() for side in ("source", "target"))
        pairs.append((english, chinese))
    stripped = dict.fromkeys((english.strip(), chinese.strip()) for english, chinese in pairs)
    return [
        (english, chinese)
        for english, chinese in stripped
        if len(english) <= LONGEST["english"] and len(chinese) <= LONGEST["chinese"]
    ]


def split(pairs: Pairs) -> Mapping[str, Pairs]:
    """Split the pairs into training, validation and test, so that no sentence is in two parts.

    A sentence may have several translations, and each of them others. All pairs that are connected
    by sentences are in one part. Sentences count as equal if they differ only in case, spaces or
    punctuation.
    """
    groups = connected(pairs)
    order = np.random.default_rng(0).permutation(groups.max() + 1)
    places = order[groups] / len(order)  # one random number in [0, 1) for each group
    ends = np.cumsum([0, *SHARES.values(), 1])
    return {
        name: [pair for pair, place in zip(pairs, places, strict=True) if low <= place < high]
        for name, low, high in zip((*SHARES, "training"), ends, ends[1:], strict=False)
    }


def connected(pairs: Pairs) -> np.ndarray:
    """Return the number of each pair's group."""
    keys = [(("english", _key(english)), ("chinese", _key(chinese))) for english, chinese in pairs]
    numbers = {key: i for i, key in enumerate(dict.fromkeys(k for both in keys for k in both))}
    left, right = np.array([[numbers[key] for key in both] for both in keys]).T
    edges = scipy.sparse.coo_array((np.ones(len(left)), (left, right)), (len(numbers),) * 2)
    return connected_components(edges, directed=False)[1][left]


def _key(sentence: str) -> str:
    return re.sub(r"\W", "", sentence.lower())


def tokenizer_of(texts: Iterable[str], kind: str, vocabulary: int) -> Tokenizer:
    """Train a tokenizer whose tokens mark where spaces were.

    Args:
        texts: texts of the training sentences.
        kind: CHARACTERS, WORDS, BYTE_PAIRS or UNIGRAM.
        vocabulary: largest number of tokens.
    """
    model, trainer, options = {
        CHARACTERS: (WordLevel(unk_token="[UNK]"), WordLevelTrainer, {"min_frequency": 2}),
        WORDS: (WordLevel(unk_token="[UNK]"), WordLevelTrainer, {"min_frequency": 2}),
        BYTE_PAIRS: (BPE(unk_token="[UNK]"), BpeTrainer, {"min_frequency": 2}),
        UNIGRAM: (Unigram(), UnigramTrainer, {"unk_token": "[UNK]"}),
    }[kind]
    pieces = (
        pre_tokenizers.Split(Regex("."), "isolated")
        if kind == CHARACTERS
        else pre_tokenizers.Punctuation()
    )
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pieces])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(
        texts,
        trainer(vocab_size=vocabulary, special_tokens=SPECIAL, show_progress=False, **options),
    )
    return tokenizer
