"""A rare class and small batches: claim 10."""

import pathlib

import keras
import numpy as np

from experiments.harness import metrics
from experiments.harness.mnist import load_mnist
from experiments.harness.norms import NORMS
from experiments.harness.study import Arm, Parts, Question, Size, Study, Training, arms

EVEN, RARE, RARE_SMALL = "half are nines", "1 in 100 is a nine", "1 in 100, batch 8"
SHARES = {EVEN: 0.5, RARE: 0.01, RARE_SMALL: 0.01}
FOUR, NINE = 4, 9


def load(task: str, samples: int | None, data: pathlib.Path | None) -> Parts:
    """Load fours and nines. The share of nines in training and validation follows the task.

    The test set has as many fours as nines.
    """
    parts = load_mnist(data, (784,), None)
    return {
        name: share_of(NINE, FOUR, part, 0.5 if name == "test" else SHARES[task], samples)
        for name, part in parts.items()
    }


def share_of(
    rare: int,
    other: int,
    part: tuple[np.ndarray, np.ndarray],
    share: float,
    samples: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Select samples of two classes in a given proportion, in random order.

    Args:
        rare: the class with the given share; its label is 1.
        other: the other class; its label is 0.
        part: inputs and classes.
        share: share of the rare class.
        samples: largest number of samples; None for as many as there are.
    """
    x, classes = part
    few, many = np.flatnonzero(classes == rare), np.flatnonzero(classes == other)
    count = int(min(len(few) / share, len(many) / (1 - share), samples or np.inf))
    there = max(round(count * share), 2)
    rows = np.concatenate([few[:there], many[: count - there]])
    rows = np.random.default_rng(0).permutation(rows)
    return x[rows], (classes[rows] == rare).astype("int32")


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Build a network with two hidden layers, normalized before the activation."""
    layers: list[keras.layers.Layer] = [keras.Input((784,), name="pixels")]
    for _ in range(2):
        layers += [keras.layers.Dense(64), NORMS[arm.model](arm.batch), keras.layers.ReLU()]
    return keras.Sequential([*layers, keras.layers.Dense(1, "sigmoid", name="nine")])


def lost(
    statement: str, even: str, task: str, threshold: float, bn: str = "BN", ln: str = "LN"
) -> Question:
    """Ask whether BatchNorm loses more than LayerNorm from the even task to another task."""
    return Question(
        10,
        statement,
        "auc",
        plus=((even, bn), (task, ln)),
        minus=((task, bn), (even, ln)),
        threshold=threshold,
        scale=100,
        unit="points of AUC",
    )


STUDY = Study(
    name="unbalanced",
    title="A rare class and small batches",
    question="Does a rare class, or a rare class in small batches, harm BatchNorm more than "
    "LayerNorm?",
    paper="No paper. Documents about normalization make the claim without a figure.",
    differences="Nothing is smaller, because the papers have no such experiment. The data are "
    "fours and nines of MNIST; half or 1 in 100 are nines. The network has two hidden layers of "
    "64 units. The test set has as many fours as nines. The effect is BatchNorm's loss from the "
    "even task to the rare task, minus LayerNorm's loss. With a rare class, validation has only "
    "five nines to choose rates and to stop.",
    revisions="The first score was log loss. It mostly reflects how many nines the model learned "
    "from, so AUC replaced it.",
    work=Training(load, build, "binary_crossentropy", metrics.binary, "log_loss", maximize=False),
    arms=arms({EVEN: 128, RARE: 128, RARE_SMALL: 8}, ("none", "BN", "LN")),
    questions=(
        lost("a rare class costs BatchNorm more than LayerNorm (batch 128)", EVEN, RARE, 0.1),
        lost(
            "a rare class in batches of 8 costs BatchNorm more than LayerNorm",
            EVEN,
            RARE_SMALL,
            0.1,
        ),
    ),
    full=Size(None, 5376, 100, patience=8, seeds=5, rates=(3e-4, 1e-3, 3e-3)),
    smoke=Size(256, 256, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores={
        "log_loss": ("test log loss, nats", 1, 3),
        "auc": ("AUC, %", 100, 2),
    },
)
