"""Click-through rate on Frappe: which norm, in which layer, before or after the activation."""

import gzip
import pathlib
from collections.abc import Sequence

import keras
import numpy as np

from experiments.harness import data, metrics
from experiments.harness.norms import NORMS
from experiments.harness.study import Arm, Parts, Question, Size, Study, Training, arms

TASK = "Frappe"
EMBEDDING, UNITS, LAYERS = 10, 128, 3
EMBEDDINGS, BEFORE, AFTER, BOTH = (
    "embeddings",
    "hidden, before the activation",
    "hidden, after the activation",
    "embeddings and hidden",
)
PLACES = (EMBEDDINGS, BEFORE, AFTER, BOTH)
VARIANTS = tuple(name for name in NORMS if name != "none")
MODELS = ("none", *(f"{norm}; {place}" for place in PLACES for norm in VARIANTS))


def rows(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Read the feature indices (rows, fields) and the labels 0 or 1 of a libfm file."""
    with data.reading("frappe", path), gzip.open(path, "rt") as lines:
        fields = [line.split() for line in lines]
        ids = np.array([[int(f.partition(":")[0]) for f in row[1:]] for row in fields], "int32")
        return ids, np.array([int(row[0]) > 0 for row in fields], "int32")


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load Frappe: the first file trains (four fifths) and validates, the second file tests."""
    ids, labels = rows(data.file("frappe", "frappe.validation.libfm.gz", folder))
    order = np.random.default_rng(0).permutation(len(labels))
    validation, training = np.split(order, [len(order) // 5])
    test_ids, test_labels = rows(data.file("frappe", "frappe.test.libfm.gz", folder))
    return {
        "training": (ids[training[:samples]], labels[training[:samples]]),
        "validation": (ids[validation[:samples]], labels[validation[:samples]]),
        "test": (test_ids[:samples], test_labels[:samples]),
    }


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Build a network of concatenated embeddings and hidden layers.

    A per-sample norm normalizes the embedding of each field. BatchNorm normalizes each number of
    the embeddings over the batch.
    """
    name, _, place = arm.model.partition("; ")
    norm = NORMS[name]
    ids = [x for x, _ in parts.values()]
    inputs = keras.Input((ids[0].shape[1],), dtype="int32", name="fields")
    x = keras.layers.Embedding(1 + max(int(x.max()) for x in ids), EMBEDDING)(inputs)
    if place in (EMBEDDINGS, BOTH) and name != "BN":
        x = norm(arm.batch)(x)
    x = keras.layers.Flatten()(x)
    if place in (EMBEDDINGS, BOTH) and name == "BN":
        x = norm(arm.batch)(x)
    for _ in range(LAYERS):
        x = keras.layers.Dense(UNITS)(x)
        if place in (BEFORE, BOTH):
            x = norm(arm.batch)(x)
        x = keras.layers.ReLU()(x)
        if place == AFTER:
            x = norm(arm.batch)(x)
    return keras.Model(inputs, keras.layers.Dense(1, "sigmoid", name="click")(x))


def questions(task: str, places: Sequence[str]) -> tuple[Question, ...]:
    """Return the questions of claims 6, 7 and 8 about a task.

    Args:
        task: name of the task.
        places: layers at which dividing and centering are compared.
    """

    def points(
        claim: int,
        statement: str,
        plus: str,
        minus: str,
        threshold: float,
        place: str = "",
        largest_rate: bool = False,
    ) -> Question:
        return Question(
            claim,
            f"{statement} ({task}{place})",
            "auc",
            ((task, plus),),
            ((task, minus),),
            threshold,
            scale=100,
            unit="points of AUC",
            largest_rate=largest_rate,
        )

    return (
        *(
            points(
                6,
                "without affine parameters, LayerNorm without centering is as good",
                f"variance only; {place}",
                f"LN without affine; {place}",
                -0.1,
                f"; {place}",
            )
            for place in places
        ),
        *(
            points(
                6,
                "dividing alone is better than centering alone",
                f"variance only; {place}",
                f"centered only; {place}",
                0.1,
                f"; {place}",
            )
            for place in places
        ),
        *(
            points(7, f"{norm} on embeddings helps", f"{norm}; {EMBEDDINGS}", "none", 0.1)
            for norm in ("BN", "LN", "variance only")
        ),
        *(
            points(
                7,
                f"at the largest learning rate, {norm} is better than BatchNorm",
                f"{norm}; {BOTH}",
                f"BN; {BOTH}",
                0.1,
                largest_rate=True,
            )
            for norm in ("LN", "LN without affine", "variance only")
        ),
        points(
            8,
            "BatchNorm before the activation is better than after it",
            f"BN; {BEFORE}",
            f"BN; {AFTER}",
            0.1,
        ),
    )


STUDY = Study(
    name="click_through_rate",
    title="Click-through rate on Frappe",
    question="Which norm helps a click-through-rate network, and in which layer?",
    paper="Wang et al. 2020 (arXiv 2006.12753): deep networks over embeddings of the fields of "
    "Criteo and Avazu. Norms of embeddings and hidden layers help. A LayerNorm that only divides "
    "by the deviation helps as much as LayerNorm. The best AUC is .8107 on Criteo and .7869 on "
    "Avazu.",
    differences="Smaller: the 57,722 and 28,860 available rows of Frappe, instead of 45 million "
    "of Criteo. The network has three hidden layers of 128 units and embeddings of 10. The "
    "optimizer is Adam, with gradients clipped at norm 1. A tenth of a point of AUC counts, as "
    "in the paper. Networks pause at an AUC of 93 to 93.7 % before they reach 94 %. LayerNorm "
    "without affine parameters before the activation chose the smallest rate. Four of its eight "
    "runs ended on this plateau, in spite of the patience, so its answer depends on them.",
    revisions="The rates were 3e-4 to 3e-3 at first, and the largest was the best for 20 of 25 "
    "models. Runs stopped three rounds after their best, with 25 seeds. Then one in four runs "
    "without a norm ended on the plateau, and BatchNorm of embeddings seemed to help. So all "
    "models ran again with more patience and eight seeds. Dividing and centering were first "
    "compared at one place, embeddings and hidden layers together; the other three were added "
    "after those runs. The question about the largest rate first asked about the worst rate. For "
    "some networks that was the smallest rate, which shows slowness and not instability.",
    work=Training(load, build, "binary_crossentropy", metrics.binary, "auc"),
    arms=arms({TASK: 512}, MODELS),
    questions=questions(TASK, PLACES),
    full=Size(None, 46_080, 100, patience=10, seeds=8, rates=(1e-3, 3e-3, 1e-2)),
    smoke=Size(512, 512, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores={
        "auc": ("AUC, %", 100, 2),
        "log_loss": ("log loss, nats", 1, 4),
    },
)
