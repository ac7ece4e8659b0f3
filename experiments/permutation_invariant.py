"""Permutation invariant MNIST at batch sizes 128 and 4: Ba et al. 2016, section 6.6, Figure 6."""

import pathlib
from collections.abc import Callable

import keras

from experiments.harness import metrics
from experiments.harness.mnist import load_mnist
from experiments.harness.norms import NORMS
from experiments.harness.study import (
    Arm,
    Curve,
    PaperFigure,
    Parts,
    Question,
    Size,
    Study,
    Training,
    arms,
)

LEVEL = 0.15  # validation nll in nats
LARGE, SMALL = "batch 128", "batch 4"
UNITS = 256


def load(task: str, samples: int | None, data: pathlib.Path | None) -> Parts:
    """Load all digits as rows of 784 pixels."""
    return load_mnist(data, (784,), samples)


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Build the network with the norm of an arm."""
    return net(NORMS[arm.model], arm.batch)


def net(norm: Callable[[int], keras.layers.Layer], batch: int) -> keras.Model:
    """Build a network with two hidden layers, normalized before the activation.

    Args:
        norm: returns a norm layer for a batch size.
        batch: batch size.
    """
    layers: list[keras.layers.Layer] = [keras.Input((784,), name="pixels")]
    for _ in range(2):
        layers += [keras.layers.Dense(UNITS), norm(batch), keras.layers.ReLU()]
    return keras.Sequential([*layers, keras.layers.Dense(10, "softmax", name="digit")])


STUDY = Study(
    name="permutation_invariant",
    title="Permutation invariant MNIST",
    question="How sensitive are BatchNorm and LayerNorm to the batch size in a dense network?",
    paper="Ba et al. 2016, Figure 6: a 784-1000-1000-10 network with BatchNorm or LayerNorm in "
    "the hidden layers, at batch sizes 128 and 4. It shows training likelihood and test error by "
    "epoch. LayerNorm is less sensitive to the batch size.",
    differences="Smaller: hidden layers of 256 units instead of 1,000. The optimizer is Adam, "
    "with gradients clipped at norm 1. A network without a norm is added. There are 55,000 "
    "training digits and 5,000 validation digits. BatchNorm's moving statistics average over "
    "equal numbers of samples at both batch sizes. They are not recomputed, because BatchNorm "
    "needs them in practice. Rates are chosen after whole runs, and epochs are counted at the "
    "chosen rate. At batch 128 it is 0.0003 for both norms, and BatchNorm is faster by a tenth "
    "of an epoch. At 0.001 and 0.003 LayerNorm is faster at seed 0. At batch 4, BatchNorm's "
    "other rates, 0.001 and 0.0003, were worse in validation by 0.002 and 0.016 nats. In the "
    "test with one seed they had 0.3 and 0.4 points more accuracy, at 0.002 nats less and 0.009 "
    "nats more.",
    revisions="The level was 0.1 nats at first, which most networks never reached at batch 4. "
    "The question about BatchNorm's epochs at batch 4 was added after the curves were seen. The "
    "question about its nll was added after its accuracy was seen. Five seeds left questions "
    "about the final quality open that seven were expected to decide, so there are nine seeds.",
    work=Training(
        load,
        build,
        "sparse_categorical_crossentropy",
        metrics.classes,
        "nll",
        maximize=False,
        compiled=True,
        level=LEVEL,
    ),
    arms=arms({LARGE: 128, SMALL: 4}, ("none", "BN", "LN")),
    questions=(
        Question(
            2,
            "from batch 128 to batch 4, BatchNorm loses more accuracy than LayerNorm",
            "accuracy",
            plus=((SMALL, "LN"), (LARGE, "BN")),
            minus=((SMALL, "BN"), (LARGE, "LN")),
            threshold=0.2,
            scale=100,
            unit="points of accuracy",
        ),
        Question(
            2,
            "at batch 4, BatchNorm ends worse than LayerNorm",
            "nll",
            plus=((SMALL, "BN"),),
            minus=((SMALL, "LN"),),
            threshold=0.01,
            unit="nats",
            digits=3,
        ),
        Question(
            2,
            "LayerNorm is as accurate at batch 4 as at batch 128",
            "accuracy",
            plus=((SMALL, "LN"),),
            minus=((LARGE, "LN"),),
            threshold=-0.2,
            scale=100,
            unit="points of accuracy",
        ),
        Question(
            2,
            f"at batch 4, BatchNorm needs more epochs than LayerNorm (to {LEVEL:g} nats)",
            "epochs",
            plus=((SMALL, "BN"),),
            minus=((SMALL, "LN"),),
            threshold=0.1,
            unit="epochs",
        ),
        Question(
            10,
            "from batch 128 to batch 4, the epochs of BatchNorm grow more than those of LayerNorm "
            f"(to {LEVEL:g} nats)",
            "epochs",
            plus=((SMALL, "BN"), (LARGE, "LN")),
            minus=((LARGE, "BN"), (SMALL, "LN")),
            threshold=0.1,
            unit="epochs",
        ),
        Question(
            5,
            f"at batch 128, BatchNorm needs fewer epochs than LayerNorm (to {LEVEL:g} nats)",
            "epochs",
            plus=((LARGE, "LN"),),
            minus=((LARGE, "BN"),),
            threshold=0.1,
            unit="epochs",
        ),
        Question(
            5,
            "at batch 128, BatchNorm ends better than LayerNorm",
            "accuracy",
            plus=((LARGE, "BN"),),
            minus=((LARGE, "LN"),),
            threshold=0.1,
            scale=100,
            unit="points of accuracy",
        ),
    ),
    full=Size(None, 11_000, 200, patience=10, seeds=9, rates=(3e-4, 1e-3, 3e-3)),
    smoke=Size(256, 256, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores={
        "accuracy": ("test accuracy, %", 100, 2),
        "nll": ("nll, nats", 1, 4),
        "epochs": (f"epochs to {LEVEL:g} nats", 1, 2),
    },
    figure=PaperFigure(
        6,
        "training nll and test error by epoch, at batch sizes 128 and 4",
        "nll and error of the validation set",
        "epochs",
        (
            Curve("nll", "validation nll, nats", log=True),
            Curve("accuracy", "validation error, %", -100, 100),
        ),
    ),
)
