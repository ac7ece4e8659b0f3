"""Skip-thought vectors: Ba et al. 2016, section 6.3 and Figure 3.

A GRU reads a sentence, and from its last state h two others tell the sentences before and after it,
word by word (Kiros et al. 2015, arXiv 1506.06726): each word w_t from h and the words before it,
and the loss is the mean of -log p(w_t | w_<t, h). Then the decoders go, and linear models learn
from h how related two sentences are (SICK), and classes (MR, CR, SUBJ, MPQA).

The text is the Penn Treebank, whose sentences stand in the order of the articles. It is the larger
one at hand and knows more of what is asked about than Tiny Shakespeare: 88 for 81 % of SICK's
words, 82 for 71 % of MR's. It has no punctuation, and so nothing else has any here.
"""

import csv
import pathlib
import re
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

import keras_norm
from experiments.harness import data, linear_probes, penn_treebank, sentences
from experiments.harness.study import (
    Arm,
    Curve,
    Figure,
    Parts,
    Question,
    Scores,
    Size,
    Study,
    Training,
    arms,
)

TEXT = "Penn Treebank"
UNITS, DECODED, WORD_UNITS = 192, 128, 128
WORDS, TOLD = 10_000, 2000  # that are read; the most frequent ones, that are told
LONGEST, LONGEST_ASKED = 20, 30  # words of a sentence to train with; of one that is asked about
END = "</s>"
SICK = {"learned": "SICK_train.txt", "asked": "SICK_test_annotated.txt"}
LEVEL = 4.8  # nats a word

LAYERS = {"GRU": keras_norm.NormGRU, "LN-GRU": keras_norm.LayerNormGRU}


def words(text: str) -> list[str]:
    """Words as the Penn Treebank has them: parted before 's and n't, numbers N, no punctuation."""
    found = re.findall(r"\w+(?=n't)|n't|'\w+|\w[\w.-]*", text.lower())
    return ["N" if re.fullmatch(r"[\d.-]+", word) else word for word in found]


def ended(sentence: Iterable[str], longest: int) -> str:
    """The first words, and END."""
    return " ".join([*list(sentence)[:longest], END])


def read_pairs(path: pathlib.Path) -> tuple[list[str], np.ndarray]:
    """The sentences of SICK's pairs, one after another, and the ratings (pairs,)."""
    with data.whole("sick", path), path.open(encoding="utf-8", newline="") as lines:
        header, *rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        first, second, rating = map(header.index, ("sentence_A", "sentence_B", "relatedness_score"))
        ratings = np.array([float(row[rating]) for row in rows])
        texts = [row[column] for row in rows for column in (first, second)]
    return [ended(words(text), LONGEST_ASKED) for text in texts], ratings


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Ids of sentences and their neighbours, and how many words these are; and what is asked."""
    read = {}
    for part in penn_treebank.FILES:
        text = penn_treebank.text(part, folder)
        lines = text.replace("<unk>", "[UNK]").splitlines()[: samples and samples + 2]
        read[part] = [ended(line.split(), LONGEST) for line in lines]
    tokenizer = sentences.tokenizer_of(read["training"], "words", WORDS)
    parts: dict[str, tuple[Any, np.ndarray]] = {}
    for part, texts in read.items():
        ids = sentences.encode(tokenizer, texts)
        x = {"sentence": ids[1:-1], "before": ids[:-2], "after": ids[2:]}
        parts[part] = x, (x["before"] > 0).sum(axis=1) + (x["after"] > 0).sum(axis=1)
    for part, name in SICK.items():
        texts, ratings = read_pairs(data.file("sick", name, folder))
        texts, ratings = texts[: samples and 2 * samples], ratings[:samples]
        parts[part] = sentences.encode(tokenizer, texts), ratings
    for name, file in sentences.FILES.items():
        texts, classes = sentences.of_file(file, folder)
        order = np.random.default_rng(0).permutation(len(texts))[:samples]
        asked = [ended(words(texts[row]), LONGEST_ASKED) for row in order]
        parts[name] = sentences.encode(tokenizer, asked), classes[order]
    return parts


def build(arm: Arm, parts: Parts) -> keras.Model:
    """What the words of both neighbours cost, in nats (sentences, 2, words); 0 behind the end."""
    names = ("sentence", "before", "after")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    gru = LAYERS[arm.model]
    embedded = keras.layers.Embedding(WORDS, WORD_UNITS, mask_zero=True)(inputs["sentence"])
    vector = gru(UNITS, name="vector")(embedded)
    embedding = keras.layers.Embedding(TOLD, WORD_UNITS)
    logits = keras.layers.Dense(TOLD)
    costs = []
    for name in names[1:]:
        told = ops.where(inputs[name] < TOLD, inputs[name], 1)  # others are unknown
        known = embedding(ops.pad(told[:, :-1], [[0, 0], [1, 0]]))
        h = ops.expand_dims(vector, 1) * ops.ones_like(known[..., :1])
        states = gru(DECODED, return_sequences=True)(ops.concatenate([known, h], axis=-1))
        nats = ops.sparse_categorical_crossentropy(told, logits(states), from_logits=True)
        costs.append(ops.where(told > 0, nats, 0.0))
    return keras.Model(inputs, ops.stack(costs, axis=1))


def mean_cost(counts: Any, nats: Any) -> Any:
    """Of the words of a sentence's neighbours, whose numbers are given."""
    return ops.sum(nats, axis=(1, 2)) / ops.cast(ops.reshape(counts, (-1,)), nats.dtype)


def score(nats: np.ndarray, counts: np.ndarray) -> Scores:
    """The mean over all words."""
    return {"nll": float(nats.sum(dtype="float64") / counts.sum())}


def measure(model: keras.Model, parts: Parts) -> Scores:
    """What linear models get from the vectors."""
    sentence = next(x for x in model.inputs if x.name == "sentence")
    encoder = keras.Model(sentence, model.get_layer("vector").output)

    def vectors(part: str) -> np.ndarray:
        return encoder.predict(parts[part][0], batch_size=500, verbose=0)

    pairs = [(vectors(part).reshape(-1, 2, UNITS), parts[part][1]) for part in SICK]
    accuracies = {
        name: linear_probes.accuracy(vectors(name), parts[name][1]) for name in sentences.FILES
    }
    return linear_probes.relatedness(*pairs) | accuracies


def _ends_better(name: str, score: str, unit: str, above: float, scale: float = 100) -> Question:
    return Question(
        12,
        f"vectors of the LN-GRU end better (Figure 3, {name})",
        score,
        ((TEXT, "LN-GRU"),),
        ((TEXT, "GRU"),),
        above,
        scale,
        unit,
    )


STUDY = Study(
    name="skip_thoughts",
    title="Skip-thoughts",
    paper="Ba et al. 2016, Figure 3 and Table 3, after Kiros et al. 2015: a GRU of 2,400 units "
    "that has read a million batches of BookCorpus's 74 million sentences. With LayerNorm its "
    "vectors serve sooner and, in the end, better on all tasks.",
    otherwise="Smaller: one million words, the Penn Treebank's 42,066 sentences. 192 units and "
    "decoders of 128, of each sentence the first 20 words; the 2,000 most frequent words are "
    "told, others as unknown. Adam, gradients clipped at norm 1. A round has 8,192 sentences, a "
    "fifth of an epoch. Vectors are tested after every epoch and after the best round; the "
    "largest class alone gives MR 50.0 %, CR 63.8, SUBJ 50.0 and MPQA 68.8. Logistic regression "
    "has features of deviation 1 and one strength of regularization, where the paper's choice is "
    "by cross-validation; no vectors of words are taken from elsewhere.",
    changed="At first a run had 15 rounds, after which all were still improving; now it goes on "
    "until validation ends it. Three seeds had not decided all: there are four. The level was "
    "4.4 nats at first, which no GRU reached. At 0.01, which was tried later, the first three "
    "rounds end at 5.13 nats of validation for the GRU, as at the rate chosen, and at 4.33 for "
    "the LN-GRU (4.45): it may gain more.",
    work=Training(
        load, build, mean_cost, score, "nll", higher=False, measure=measure, every=5, level=LEVEL
    ),
    arms=arms({TEXT: 128}, tuple(LAYERS)),
    questions=(
        Question(
            12,
            f"the LN-GRU needs fewer epochs to {LEVEL:g} nats a word (Figure 3)",
            "epochs",
            ((TEXT, "GRU"),),
            ((TEXT, "LN-GRU"),),
            above=0.1,
            unit="epochs",
        ),
        _ends_better("SICK", "r", "hundredths of r", above=0.5),
        *(_ends_better(n, n, "points of accuracy", above=0.5) for n in sentences.FILES),
    ),
    # The hour is the bound: it has some 300 rounds, as timed.
    full=Size(None, 8192, 1200, patience=4, seeds=4, rates=(3e-4, 1e-3, 3e-3), trial=3),
    smoke=Size(64, 64, 1, patience=1, seeds=1, rates=(1e-3,)),
    minutes=12.0,
    scores={
        "r": ("SICK, r", 1, 3),
        "rho": ("rho", 1, 3),
        "mse": ("MSE", 1, 3),
        **{name: (f"{name}, %", 100, 1) for name in sentences.FILES},
        "epochs": (f"epochs to {LEVEL:g} nats", 1, 2),
    },
    figure=Figure(
        3,
        "what the vectors serve for, by update: r and MSE of SICK, accuracies on MR, CR, SUBJ and "
        "MPQA; its Table 3 has the ends",
        "the same, after every epoch",
        "updates",
        (
            Curve("r", "SICK, r"),
            Curve("mse", "SICK, MSE"),
            *(Curve(name, f"{name}, accuracy, %", 100) for name in sentences.FILES),
        ),
        {
            score: {"GRU": gru, "LN-GRU": ln_gru}
            for score, gru, ln_gru in (
                ("r", "0.842", "0.854"),
                ("rho", "0.767", "0.785"),
                ("mse", "0.298", "0.277"),
                ("MR", "77.3", "79.5"),
                ("CR", "81.8", "82.6"),
                ("SUBJ", "92.6", "93.4"),
                ("MPQA", "87.9", "89.0"),
            )
        },
    ),
)
