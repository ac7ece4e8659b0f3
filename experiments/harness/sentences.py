"""Sentence classification data sets and their tokenizers."""

import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE, WordLevel
from tokenizers.trainers import BpeTrainer, WordLevelTrainer

from experiments.harness import data

FOLDER = "sentence_classification"
SPECIAL = ["[PAD]", "[UNK]"]  # ids 0 and 1

# Data sets with one file and no split.
FILES = {"MR": "rt-polarity.all", "CR": "custrev.all", "SUBJ": "subj.all", "MPQA": "mpqa.all"}
# Files in Latin-1; all other files are UTF-8.
LATIN = ("rt-polarity.all", "subj.all", "TREC.train.all", "TREC.test.all")
DATASETS = ("TREC", *FILES, "SST")

# Texts of sentences, and their classes.
Sentences = tuple[np.ndarray, np.ndarray]

# Token ids (sentences, tokens), padded with zeros on the right, and the classes.
Ids = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Token ids of a data set, and the tokenizer."""

    tokenizer: Tokenizer
    parts: dict[str, Ids]

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return self.tokenizer.get_vocab_size()

    @property
    def classes(self) -> int:
        """Number of classes."""
        return 1 + max(int(classes.max()) for _, classes in self.parts.values())


def read(path: pathlib.Path) -> Sentences:
    """Read a file with a class, a space and a sentence on each line."""
    encoding = "latin-1" if path.name in LATIN else "utf-8"
    # str.splitlines would also split at byte 85 of Latin-1.
    with data.reading(FOLDER, path), path.open(encoding=encoding) as lines:
        pairs = [line.rstrip("\n").partition(" ") for line in lines]
        return np.array([text for *_, text in pairs], object), np.array([int(c) for c, *_ in pairs])


def load(dataset: str, folder: pathlib.Path | None) -> dict[str, Sentences]:
    """Load the sentences of a data set for training, validation and test.

    Args:
        dataset: a name in DATASETS.
        folder: the data folder; None if there is none.
    """
    if dataset == "TREC":
        whole, test = (_trec(split, folder) for split in ("train", "test"))
        validation, training = _tenths(whole, 1)
    elif dataset == "SST":
        training, validation, test = (
            of_file(f"stsa.binary.{part}", folder) for part in ("train", "dev", "test")
        )
    else:
        test, validation, training = _tenths(of_file(FILES[dataset], folder), 2)
    return {"training": training, "validation": validation, "test": test}


def of_file(name: str, folder: pathlib.Path | None) -> Sentences:
    """Load the sentences of a file and their classes.

    Args:
        name: name of the file.
        folder: the data folder; None if there is none.
    """
    return read(data.file(FOLDER, name, folder))


def _trec(split: str, folder: pathlib.Path | None) -> Sentences:
    questions = data.from_tfds("trec", split, folder)
    texts = [text.decode() for text in questions["text"]]
    return np.array(texts, object), questions["label-coarse"]


def _tenths(sentences: Sentences, count: int) -> list[Sentences]:
    """Return `count` random tenths of the sentences, and then the rest, with a fixed seed."""
    texts, classes = sentences
    order = np.random.default_rng(0).permutation(len(texts))
    ends = [len(texts) * tenth // 10 for tenth in range(1, count + 1)]
    return [(texts[part], classes[part]) for part in np.split(order, ends)]


def tokenizer_of(texts: Iterable[str], tokens: str, vocabulary: int) -> Tokenizer:
    """Train a tokenizer that pads on the right and does not truncate.

    A word or character that occurs once becomes the unknown token, so that this token is trained.
    Subwords are merged from pairs that occur twice.

    Args:
        texts: texts of the training sentences.
        tokens: "words", "characters" or "subwords".
        vocabulary: largest number of tokens. Id 0 is padding and id 1 the unknown token.
    """
    model, splitter, trainer = {
        "words": (WordLevel, pre_tokenizers.WhitespaceSplit(), WordLevelTrainer),
        "characters": (WordLevel, pre_tokenizers.Split(Regex("."), "isolated"), WordLevelTrainer),
        "subwords": (BPE, pre_tokenizers.Metaspace(), BpeTrainer),
    }[tokens]
    tokenizer = Tokenizer(model(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = splitter
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.train_from_iterator(
        texts,
        trainer(
            vocab_size=vocabulary, min_frequency=2, special_tokens=SPECIAL, show_progress=False
        ),
    )
    tokenizer.enable_padding(direction="right", pad_id=0, pad_token="[PAD]")
    return tokenizer


def prepare(
    dataset: str, folder: pathlib.Path | None, tokens: str, vocabulary: int, training: int | None
) -> Corpus:
    """Load a data set as token ids.

    Args:
        dataset: a name in DATASETS.
        folder: the data folder; None if there is none.
        tokens: kind of tokens, as in `tokenizer_of`.
        vocabulary: largest number of tokens.
        training: number of training sentences; None for all.
    """
    parts = load(dataset, folder)
    texts, classes = parts["training"]
    parts["training"] = texts[:training], classes[:training]
    tokenizer = tokenizer_of(parts["training"][0], tokens, vocabulary)
    return Corpus(
        tokenizer,
        {name: (encode(tokenizer, texts), classes) for name, (texts, classes) in parts.items()},
    )


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """Return the token ids (sentences, tokens), padded with zeros to the longest sentence."""
    return np.array([encoding.ids for encoding in tokenizer.encode_batch(list(texts))], "int32")
