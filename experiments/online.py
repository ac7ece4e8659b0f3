"""Online learning with batch size 1: each TREC question is learned once. Claim 2."""

import pathlib

import keras

import keras_norm
from experiments.harness import metrics, sentences
from experiments.harness.study import Arm, Parts, Question, Size, Study, Training, arms

TASK = "TREC, batch 1, one pass"
WORDS, UNITS, LONGEST = 5000, 48, 40

LAYERS = {
    "GRU": keras_norm.NormGRU,
    "LN-GRU": keras_norm.LayerNormGRU,
}


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load the word ids of the questions, padded on the right."""
    corpus = sentences.prepare("TREC", folder, "words", WORDS, samples)
    return {name: (ids[:samples, :LONGEST], y[:samples]) for name, (ids, y) in corpus.parts.items()}


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Build a classifier of questions."""
    inputs = keras.Input((None,), dtype="int32", name="words")
    x = keras.layers.Embedding(WORDS, UNITS, mask_zero=True)(inputs)
    outputs = keras.layers.Dense(6, "softmax", name="kind")(LAYERS[arm.model](UNITS)(x))
    return keras.Model(inputs, outputs)


STUDY = Study(
    name="online",
    title="Online learning of questions",
    question="Does a GRU with LayerNorm learn from batches of one?",
    paper="Ba et al. 2016, section 3: LayerNorm works in the online regime, with batches of one. "
    "The paper shows no figure. BatchNorm has no statistics of one sample.",
    differences="Nothing is smaller, because the papers have no such experiment. A GRU of 48 units "
    "learns from 4,907 questions, one after another, each once. The largest class has a quarter "
    "of the questions.",
    work=Training(load, build, "sparse_categorical_crossentropy", metrics.classes, "accuracy"),
    arms=arms({TASK: 1}, tuple(LAYERS)),
    questions=(
        Question(
            2,
            "LayerNorm learns at batch size 1: it classifies more than half of the questions",
            "accuracy",
            ((TASK, "LN-GRU"),),
            threshold=50.0,
            scale=100,
            unit="% of the questions",
        ),
        Question(
            2,
            "LayerNorm ends better than no norm after one pass",
            "accuracy",
            ((TASK, "LN-GRU"),),
            ((TASK, "GRU"),),
            threshold=1.0,
            scale=100,
            unit="points of accuracy",
        ),
    ),
    full=Size(None, 4907, 1, patience=1, seeds=5, rates=(3e-4, 1e-3, 3e-3)),
    smoke=Size(16, 16, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores={"accuracy": ("test accuracy, %", 100, 1), "nll": ("nll, nats", 1, 3)},
)
