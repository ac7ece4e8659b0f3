"""A rare class, and small batches: claim 10."""

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
    """Fours and nines, so many of them nines in training and validation; the test is even."""
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
    """As many samples of two classes as there are, in this proportion, in a random order.

    Args:
        rare: the class whose samples are the share; its label is 1.
        other: the class of the rest.
        part: inputs and classes.
        share: of the samples.
        samples: how many at most; None for all.
    """
    x, classes = part
    few, many = np.flatnonzero(classes == rare), np.flatnonzero(classes == other)
    count = int(min(len(few) / share, len(many) / (1 - share), samples or np.inf))
    there = max(round(count * share), 2)
    rows = np.concatenate([few[:there], many[: count - there]])
    rows = np.random.default_rng(0).permutation(rows)
    return x[rows], (classes[rows] == rare).astype("int32")


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Two hidden layers, normalized before the activation."""
    layers: list[keras.layers.Layer] = [keras.Input((784,), name="pixels")]
    for _ in range(2):
        layers += [keras.layers.Dense(64), NORMS[arm.model](arm.batch), keras.layers.ReLU()]
    return keras.Sequential([*layers, keras.layers.Dense(1, "sigmoid", name="nine")])


def lost(part: str, even: str, task: str, above: float, bn: str = "BN", ln: str = "LN") -> Question:
    """Whether BatchNorm loses more from the even task to another than LayerNorm does."""
    return Question(
        10,
        part,
        "auc",
        plus=((even, bn), (task, ln)),
        minus=((task, bn), (even, ln)),
        above=above,
        scale=100,
        unit="points of AUC",
    )


STUDY = Study(
    name="unbalanced",
    title="A rare class, and small batches",
    paper="No paper: the claim stands in documents on normalization, without a figure.",
    otherwise="Smaller: nothing; the papers have no such experiment. Fours and nines of MNIST, "
    "half of them nines or 1 in 100, as many as there are; two hidden layers of 64 units; tested "
    "on as many fours as nines. What BatchNorm loses from the even task to the rare one counts "
    "beyond what LayerNorm loses. Five nines validate a rare class: few to choose rates and to "
    "stop by.",
    changed="The score was log loss at first, which says more of how many nines there were to "
    "learn from.",
    work=Training(load, build, "binary_crossentropy", metrics.binary, "log_loss", higher=False),
    arms=arms({EVEN: 128, RARE: 128, RARE_SMALL: 8}, ("none", "BN", "LN")),
    questions=(
        lost("a rare class misleads BatchNorm (batch 128)", EVEN, RARE, 0.1),
        lost("a rare class and batches of 8 together mislead it", EVEN, RARE_SMALL, 0.1),
    ),
    full=Size(None, 5376, 100, patience=8, seeds=5, rates=(3e-4, 1e-3, 3e-3)),
    smoke=Size(256, 256, 1, patience=1, seeds=1, rates=(1e-3,)),
    minutes=0.3,
    scores={
        "log_loss": ("test log loss, nats", 1, 3),
        "auc": ("AUC, %", 100, 2),
    },
)
