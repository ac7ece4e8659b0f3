"""Skip-thought vectors: Ba et al. 2016, section 6.3 and Figure 3.

A GRU encodes a sentence in its last state h. Two GRUs predict the sentences before and after it,
word by word (Kiros et al. 2015, arXiv 1506.06726). They predict each word w_t from h and the words
before it. The loss is the mean of -log p(w_t | w_<t, h). Then linear models predict from h how
related two sentences are (SICK), and classes (MR, CR, SUBJ, MPQA).

The text is the Penn Treebank, with its sentences in the order of the articles. It is larger than
Tiny Shakespeare and has more of the tasks' words: 88 instead of 81 % of SICK's, 82 instead of 71 %
of MR's. It has no punctuation, so punctuation is removed everywhere.
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
    PaperFigure,
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
WORDS, PREDICTED = 10_000, 2000  # vocabulary of the encoder; most frequent words, of the decoders
LONGEST, LONGEST_IN_TASK = 20, 30  # words of a training sentence; of a sentence in a task
END = "</s>"
SICK = {"sick_training": "SICK_train.txt", "sick_test": "SICK_test_annotated.txt"}
LEVEL = 4.8  # nats per word

LAYERS = {"GRU": keras_norm.NormGRU, "LN-GRU": keras_norm.LayerNormGRU}


def words(text: str) -> list[str]:
    """Split a text into words as in the Penn Treebank.

    's and n't are words, numbers become N, and punctuation is removed.
    """
    found = re.findall(r"\w+(?=n't)|n't|'\w+|\w[\w.-]*", text.lower())
    return ["N" if re.fullmatch(r"[\d.-]+", word) else word for word in found]


def ended(sentence: Iterable[str], longest: int) -> str:
    """Join the first words of a sentence and END."""
    return " ".join([*list(sentence)[:longest], END])


def read_pairs(path: pathlib.Path) -> tuple[list[str], np.ndarray]:
    """Read SICK: the sentences of the pairs one after another, and the ratings (pairs,)."""
    with data.reading("sick", path), path.open(encoding="utf-8", newline="") as lines:
        header, *rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        first, second, rating = map(header.index, ("sentence_A", "sentence_B", "relatedness_score"))
        ratings = np.array([float(row[rating]) for row in rows])
        texts = [row[column] for row in rows for column in (first, second)]
    return [ended(words(text), LONGEST_IN_TASK) for text in texts], ratings


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load sentences with their neighbors, the word counts of the neighbors, and the tasks."""
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
        task_texts = [ended(words(texts[row]), LONGEST_IN_TASK) for row in order]
        parts[name] = sentences.encode(tokenizer, task_texts), classes[order]
    return parts


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Build a model that returns the nats of the neighbors' words, (sentences, 2, words).

    Padded words have 0 nats.
    """
    names = ("sentence", "before", "after")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    gru = LAYERS[arm.model]
    embedded = keras.layers.Embedding(WORDS, WORD_UNITS, mask_zero=True)(inputs["sentence"])
    vector = gru(UNITS, name="vector")(embedded)
    embedding = keras.layers.Embedding(PREDICTED, WORD_UNITS)
    logits = keras.layers.Dense(PREDICTED)
    costs = []
    for name in names[1:]:
        ids = ops.where(inputs[name] < PREDICTED, inputs[name], 1)  # 1: an unknown word
        before = embedding(ops.pad(ids[:, :-1], [[0, 0], [1, 0]]))
        h = ops.expand_dims(vector, 1) * ops.ones_like(before[..., :1])
        states = gru(DECODED, return_sequences=True)(ops.concatenate([before, h], axis=-1))
        nats = ops.sparse_categorical_crossentropy(ids, logits(states), from_logits=True)
        costs.append(ops.where(ids > 0, nats, 0.0))
    return keras.Model(inputs, ops.stack(costs, axis=1))


def mean_cost(counts: Any, nats: Any) -> Any:
    """Return the mean nats of the neighbors' words of each sentence.

    Args:
        counts: number of words in both neighbors.
        nats: (sentences, 2, words).
    """
    return ops.sum(nats, axis=(1, 2)) / ops.cast(ops.reshape(counts, (-1,)), nats.dtype)


def score(nats: np.ndarray, counts: np.ndarray) -> Scores:
    """Return the mean nats over all words."""
    return {"nll": float(nats.sum(dtype="float64") / counts.sum())}


def measure(model: keras.Model, parts: Parts) -> Scores:
    """Return the scores of linear models on the sentence vectors."""
    sentence = next(x for x in model.inputs if x.name == "sentence")
    encoder = keras.Model(sentence, model.get_layer("vector").output)

    def vectors(part: str) -> np.ndarray:
        return encoder.predict(parts[part][0], batch_size=500, verbose=0)

    pairs = [(vectors(part).reshape(-1, 2, UNITS), parts[part][1]) for part in SICK]
    accuracies = {
        name: linear_probes.accuracy(vectors(name), parts[name][1]) for name in sentences.FILES
    }
    return linear_probes.relatedness(*pairs) | accuracies


def _ends_better(
    name: str, score: str, unit: str, threshold: float, scale: float = 100
) -> Question:
    return Question(
        12,
        f"vectors of the LN-GRU end better (Figure 3, {name})",
        score,
        ((TEXT, "LN-GRU"),),
        ((TEXT, "GRU"),),
        threshold,
        scale,
        unit,
    )


STUDY = Study(
    name="skip_thoughts",
    title="Skip-thoughts",
    question="Does LayerNorm improve sentence vectors, and are they learned faster?",
    paper="Ba et al. 2016, Figure 3 and Table 3, after Kiros et al. 2015: a GRU of 2,400 units "
    "reads a million batches of the 74 million sentences of BookCorpus. With LayerNorm, its "
    "vectors improve sooner and end better on all tasks.",
    differences="Smaller: one million words, in the 42,066 sentences of the Penn Treebank. The "
    "encoder has 192 units, the decoders 128, and sentences are truncated at 20 words. The "
    "decoders predict the 2,000 most frequent words; all others count as unknown. The optimizer "
    "is Adam, with gradients clipped at norm 1. A round has 8,192 sentences, a fifth of an "
    "epoch. Vectors are tested after each epoch and after the best round. The largest class "
    "alone gives MR 50.0 %, CR 63.8 %, SUBJ 50.0 % and MPQA 68.8 %. Logistic regression uses "
    "standardized features and one regularization strength; the paper chooses it by "
    "cross-validation. No word vectors come from elsewhere.",
    revisions="The limit was 15 rounds at first, when all runs were still improving; now "
    "validation stops them. Three seeds did not decide every question, so there are four. The "
    "level was 4.4 nats at first, which no GRU reached. The rate 0.01 was tried later. Its first "
    "three rounds end at 5.13 nats in validation for the GRU, as at the chosen rate, and at 4.33 "
    "for the LN-GRU (4.45 at the chosen rate). So the LN-GRU might gain more.",
    work=Training(
        load, build, mean_cost, score, "nll", maximize=False, measure=measure, every=5, level=LEVEL
    ),
    arms=arms({TEXT: 128}, tuple(LAYERS)),
    questions=(
        Question(
            12,
            f"the LN-GRU needs fewer epochs to {LEVEL:g} nats per word (Figure 3)",
            "epochs",
            ((TEXT, "GRU"),),
            ((TEXT, "LN-GRU"),),
            threshold=0.1,
            unit="epochs",
        ),
        _ends_better("SICK", "r", "hundredths of r", threshold=0.5),
        *(_ends_better(n, n, "points of accuracy", threshold=0.5) for n in sentences.FILES),
    ),
    # The hour limit comes first: about 300 rounds take an hour.
    full=Size(None, 8192, 1200, patience=4, seeds=4, rates=(3e-4, 1e-3, 3e-3), trial=3),
    smoke=Size(64, 64, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores={
        "r": ("SICK, r", 1, 3),
        "rho": ("SICK, rho", 1, 3),
        "mse": ("SICK, MSE", 1, 3),
        **{name: (f"{name}, %", 100, 1) for name in sentences.FILES},
        "epochs": (f"epochs to {LEVEL:g} nats", 1, 2),
    },
    in_paper={
        (TEXT, score): {"GRU": gru, "LN-GRU": ln_gru}
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
    figure=PaperFigure(
        3,
        "task scores of the vectors by update: r and MSE of SICK, accuracies on MR, CR, SUBJ and "
        "MPQA; its Table 3 has the final scores",
        "these scores after each epoch",
        "updates",
        (
            Curve("r", "SICK, r"),
            Curve("mse", "SICK, MSE"),
            *(Curve(name, f"{name}, accuracy, %", 100) for name in sentences.FILES),
        ),
    ),
)
