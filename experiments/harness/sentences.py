"""Sentences with a class, as their authors published them, and their tokens."""

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

# Datasets that are one file without a split.
FILES = {"MR": "rt-polarity.all", "CR": "custrev.all", "SUBJ": "subj.all", "MPQA": "mpqa.all"}
# The other files are UTF-8.
LATIN = ("rt-polarity.all", "subj.all", "TREC.train.all", "TREC.test.all")
DATASETS = ("TREC", *FILES, "SST")

# The texts of some sentences, and their classes.
Sentences = tuple[np.ndarray, np.ndarray]

# The ids of whole sentences (sentences, tokens), zeros on the right; and their classes.
Ids = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Sentences to train, validate and test with, and what made them ids."""

    tokenizer: Tokenizer
    parts: dict[str, Ids]

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return self.tokenizer.get_vocab_size()

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return 1 + max(int(classes.max()) for _, classes in self.parts.values())


def read(path: pathlib.Path) -> Sentences:
    """A file with a class, a space and a sentence on every line."""
    encoding = "latin-1" if path.name in LATIN else "utf-8"
    # Read line by line, since to str.splitlines a byte 85 of latin-1 ends a line too.
    with data.whole(FOLDER, path), path.open(encoding=encoding) as lines:
        pairs = [line.rstrip("\n").partition(" ") for line in lines]
        return np.array([text for *_, text in pairs], object), np.array([int(c) for c, *_ in pairs])


def load(dataset: str, folder: pathlib.Path | None) -> dict[str, Sentences]:
    """The sentences of a dataset to train, validate and test with.

    Args:
        dataset: one of DATASETS.
        folder: of the data.
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
    """The sentences of a file, and their classes.

    Args:
        name: of the file.
        folder: of the data.
    """
    return read(data.file(FOLDER, name, folder))


def _trec(split: str, folder: pathlib.Path | None) -> Sentences:
    questions = data.from_tfds("trec", split, folder)
    texts = [text.decode() for text in questions["text"]]
    return np.array(texts, object), questions["label-coarse"]


def _tenths(sentences: Sentences, count: int) -> list[Sentences]:
    """So many random tenths of the sentences, and then the rest; always the same ones."""
    texts, classes = sentences
    order = np.random.default_rng(0).permutation(len(texts))
    ends = [len(texts) * tenth // 10 for tenth in range(1, count + 1)]
    return [(texts[part], classes[part]) for part in np.split(order, ends)]


def tokenizer_of(texts: Iterable[str], tokens: str, vocabulary: int) -> Tokenizer:
    """A tokenizer made from texts, which pads on the right, and cuts nothing.

    A word or character that is there once is unknown to it, so that the unknown token is learned;
    subwords are merged of pairs that are there twice.

    Args:
        texts: of the training sentences.
        tokens: "words", "characters" or "subwords".
        vocabulary: how many tokens to know at most; 0 is padding and 1 all that is unknown.
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
    """The sentences of a dataset as ids.

    Args:
        dataset: one of DATASETS.
        folder: of the data.
        tokens: see `tokenizer_of`.
        vocabulary: see `tokenizer_of`.
        training: how many sentences there are to learn from; None for all.
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
    """Ids of whole sentences (sentences, tokens of the longest), zeros on the right."""
    return np.array([encoding.ids for encoding in tokenizer.encode_batch(list(texts))], "int32")
