"""A rare kind of question, and small batches: claim 10, of sequences."""

import pathlib

import keras

import keras_norm
from experiments.harness import metrics, sentences
from experiments.harness.study import Arm, Parts, Size, Study, Training, arms
from experiments.unbalanced import lost, share_of

EVEN, RARE, RARE_SMALL = "half are of things", "1 in 50 is of a thing", "1 in 50, batch 8"
SHARES = {EVEN: 0.5, RARE: 0.02, RARE_SMALL: 0.02}
DESCRIPTION, THING = 0, 1  # classes of TREC
WORDS, UNITS, LONGEST = 5000, 48, 40

LAYERS = {
    "GRU": lambda: keras_norm.NormGRU(UNITS),
    "LN-GRU": lambda: keras_norm.LayerNormGRU(UNITS),
    "BN-GRU": lambda: keras_norm.BatchNormGRU(UNITS, LONGEST),
}
COMPARED = ("BN-GRU", "LN-GRU")


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Questions after a description or a thing, so many of things in what there is to learn from.

    Validation and test are even. Words are ids, zeros on the right.
    """
    corpus = sentences.prepare("TREC", folder, "words", WORDS, None)
    return {
        part: share_of(
            THING,
            DESCRIPTION,
            (ids[:, :LONGEST], classes),
            SHARES[task] if part == "training" else 0.5,
            samples,
        )
        for part, (ids, classes) in corpus.parts.items()
    }


def build(arm: Arm, parts: Parts) -> keras.Model:
    """A classifier of questions."""
    inputs = keras.Input((None,), dtype="int32", name="words")
    x = keras.layers.Embedding(WORDS, UNITS, mask_zero=True)(inputs)
    outputs = keras.layers.Dense(1, "sigmoid", name="thing")(LAYERS[arm.model]()(x))
    return keras.Model(inputs, outputs)


STUDY = Study(
    name="rare_questions",
    title="A rare kind of question, and small batches",
    paper="No paper: the claim stands in documents on normalization, without a figure.",
    otherwise="Smaller: 2,100 questions of TREC, after descriptions (What is a fuel cell ?) and "
    "after things (What color is a pomegranate ?), or all those after descriptions and few after "
    "things. A GRU of 48 units, BatchNorm with statistics of every timestep. As many of both "
    "kinds validate and test, so that no rate is chosen by a handful. What BatchNorm loses from "
    "the even task to the rare one counts beyond what LayerNorm loses. TREC's test has other "
    "questions than its training, of which a part validates: there the nets have another order "
    "at batch 8.",
    work=Training(
        load, build, "binary_crossentropy", metrics.binary, "auc", recalibrated=True, learned=0.7
    ),
    arms=arms({EVEN: 128, RARE: 128, RARE_SMALL: 8}, tuple(LAYERS)),
    questions=(
        lost("a rare class misleads recurrent BatchNorm (batch 128)", EVEN, RARE, 0.5, *COMPARED),
        lost("a rare class and batches of 8 together mislead it", EVEN, RARE_SMALL, 0.5, *COMPARED),
    ),
    full=Size(None, 5376, 100, patience=5, seeds=5, rates=(1e-3, 3e-3, 1e-2), trial=5),
    smoke=Size(16, 16, 1, patience=1, seeds=1, rates=(1e-3,)),
    minutes=0.5,
    scores={"auc": ("AUC, %", 100, 2), "log_loss": ("test log loss, nats", 1, 3)},
)
