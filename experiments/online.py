"""Online learning: batches of one, each question of TREC read once: claim 2's other half."""

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
    """Ids of the questions' words, zeros on the right."""
    corpus = sentences.prepare("TREC", folder, "words", WORDS, samples)
    return {name: (ids[:samples, :LONGEST], y[:samples]) for name, (ids, y) in corpus.parts.items()}


def build(arm: Arm, parts: Parts) -> keras.Model:
    """A classifier of questions."""
    inputs = keras.Input((None,), dtype="int32", name="words")
    x = keras.layers.Embedding(WORDS, UNITS, mask_zero=True)(inputs)
    outputs = keras.layers.Dense(6, "softmax", name="kind")(LAYERS[arm.model](UNITS)(x))
    return keras.Model(inputs, outputs)


STUDY = Study(
    name="online",
    title="Online learning",
    paper="Ba et al. 2016, section 3: LayerNorm can be used in the online regime, with batches of "
    "one; without a figure. A BatchNorm has no statistics of one sample.",
    otherwise="Smaller: nothing; the papers have no such experiment. 4,907 questions, one after "
    "another and each once, a GRU of 48 units.",
    work=Training(load, build, "sparse_categorical_crossentropy", metrics.classes, "accuracy"),
    arms=arms({TASK: 1}, tuple(LAYERS)),
    questions=(
        Question(
            2,
            "LayerNorm works at 1: half of the questions are right, where the largest kind has a "
            "quarter",
            "accuracy",
            ((TASK, "LN-GRU"),),
            above=50.0,
            scale=100,
            unit="% of the questions",
        ),
        Question(
            2,
            "it learns better than no norm in one pass",
            "accuracy",
            ((TASK, "LN-GRU"),),
            ((TASK, "GRU"),),
            above=1.0,
            scale=100,
            unit="points of accuracy",
        ),
    ),
    full=Size(None, 4907, 1, patience=1, seeds=5, rates=(3e-4, 1e-3, 3e-3)),
    smoke=Size(16, 16, 1, patience=1, seeds=1, rates=(1e-3,)),
    minutes=0.5,
    scores={"accuracy": ("test accuracy, %", 100, 1), "nll": ("nll, nats", 1, 3)},
)
