"""A rare class of questions and small batches, for sequences: claims 10 and 16."""

import pathlib

import keras

import keras_norm
from experiments.few_features import form_of
from experiments.harness import metrics, sentences
from experiments.harness.study import Arm, Parts, Question, Size, Study, Training, arms
from experiments.unbalanced import lost, share_of

EVEN, RARE, RARE_SMALL = "half are of things", "1 in 50 is of a thing", "1 in 50, batch 8"
SHARES = {EVEN: 0.5, RARE: 0.02, RARE_SMALL: 0.02}
DESCRIPTION, THING = 0, 1  # classes of TREC
WORDS, UNITS, LONGEST = 5000, 48, 40

JOINT, JOINT_ALL = "LN-GRU, joint form", "LN-GRU, joint_all form"
LAYERS = {
    "GRU": lambda: keras_norm.NormGRU(UNITS),
    "LN-GRU": lambda: keras_norm.LayerNormGRU(UNITS),
    "BN-GRU": lambda: keras_norm.BatchNormGRU(UNITS, LONGEST),
    JOINT: lambda: keras_norm.LayerNormGRU(UNITS, norm_form="joint"),
    JOINT_ALL: lambda: keras_norm.LayerNormGRU(UNITS, norm_form="joint_all"),
}
COMPARED = ("BN-GRU", "LN-GRU")


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load questions with the answer type description or thing. Word ids are padded on the right.

    The share of things in training follows the task. Validation and test sets are balanced.
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
    """Build a classifier of questions."""
    inputs = keras.Input((None,), dtype="int32", name="words")
    x = keras.layers.Embedding(WORDS, UNITS, mask_zero=True)(inputs)
    outputs = keras.layers.Dense(1, "sigmoid", name="thing")(LAYERS[arm.model]()(x))
    return keras.Model(inputs, outputs)


def _no_worse(model: str, task: str) -> Question:
    return Question(
        16,
        f"the LN-GRU ends no worse in the {form_of(model)} ({task})",
        "auc",
        ((task, model),),
        ((task, "LN-GRU"),),
        threshold=-0.5,
        scale=100,
        unit="points of AUC",
    )


STUDY = Study(
    name="rare_questions",
    title="A rare class of questions and small batches",
    question="Does a rare class, or a rare class in small batches, harm recurrent BatchNorm more "
    "than LayerNorm?",
    paper="No paper. Documents about normalization make the claim without a figure.",
    differences="Smaller: 2,100 questions of TREC. They ask for a description (What is a fuel "
    "cell ?) or a thing (What color is a pomegranate ?). In the rare tasks, all description "
    "questions and few thing questions are used. A GRU of 48 units reads them; BatchNorm has "
    "statistics for every timestep. Validation and test sets are balanced, so rates are not "
    "chosen by a few samples. The effect is BatchNorm's loss from the even task to the rare "
    "task, minus LayerNorm's loss. TREC's test questions differ from its training questions, "
    "which supply the validation set. In validation, the models rank differently at batch 8.",
    revisions="The joint forms were added later.",
    work=Training(
        load, build, "binary_crossentropy", metrics.binary, "auc", recalibrated=True, learned=0.7
    ),
    arms=arms({EVEN: 128, RARE: 128, RARE_SMALL: 8}, tuple(LAYERS)),
    questions=(
        lost(
            "a rare class costs recurrent BatchNorm more than LayerNorm (batch 128)",
            EVEN,
            RARE,
            0.5,
            *COMPARED,
        ),
        lost(
            "a rare class in batches of 8 costs recurrent BatchNorm more than LayerNorm",
            EVEN,
            RARE_SMALL,
            0.5,
            *COMPARED,
        ),
        *(_no_worse(model, task) for model in (JOINT, JOINT_ALL) for task in SHARES),
    ),
    full=Size(None, 5376, 100, patience=5, seeds=5, rates=(1e-3, 3e-3, 1e-2), trial=5),
    smoke=Size(16, 16, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores={"auc": ("AUC, %", 100, 2), "log_loss": ("test log loss, nats", 1, 3)},
)
