"""DRAW on binarized MNIST: Ba et al. 2016, section 6.4 and Figure 5."""

import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import matplotlib.axes
import numpy as np
import scipy.special
from keras import ops

import keras_norm
from experiments.harness.draw_layer import Draw
from experiments.harness.likelihoods import bernoulli_nll
from experiments.harness.mnist import load_mnist
from experiments.harness.study import (
    Arm,
    Curve,
    Drawings,
    PaperFigure,
    Parts,
    Question,
    Scores,
    Size,
    Study,
    Training,
    arms,
)

TASK = "binarized MNIST"
IMAGES = 20_000  # training images
SIDE, GLIMPSES, POINTS, LATENT, UNITS = 28, 8, 5, 20, 128
SHOWN, IN_A_ROW = 24, 8
SHADES = "0123456789abcdef"
LEVEL = 120.0

# A NormLSTMCell without a norm computes what keras.layers.LSTMCell computes.
CELLS = {"LSTM": keras_norm.NormLSTMCell, "LN-LSTM": keras_norm.LayerNormLSTMCell}


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load binarized digits, as inputs and targets. A pixel is 1 with the probability of its gray.

    The random draw has a fixed seed.
    """
    rng, parts = np.random.default_rng(0), {}
    for name, (gray, _) in load_mnist(folder, (SIDE**2,), samples).items():
        images = gray[:IMAGES] if name == "training" else gray
        binary = (rng.random(images.shape, "float32") < images).astype("float32")
        parts[name] = binary, binary
    return parts


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Build DRAW. It returns the logits of the pixels and the KL term of the latent numbers."""
    pictures = keras.Input((SIDE**2,), name="pictures")
    layer = Draw(lambda: CELLS[arm.model](UNITS), GLIMPSES, POINTS, SIDE, LATENT, name="draw")
    return keras.Model(pictures, layer(pictures))


def bound(targets: Any, outputs: Any) -> Any:
    """Return an upper bound of the nll: -log p(x | z) + KL(q(z | x) || p(z)), with one z."""
    return ops.sum(bernoulli_nll(targets, outputs[..., :-1]), axis=-1) + outputs[..., -1]


def loss(targets: Any, outputs: Any) -> Any:
    """Return the bound divided by the number of pixels, so that few gradients are clipped."""
    return bound(targets, outputs) / SIDE**2


def score(outputs: np.ndarray, targets: np.ndarray) -> Scores:
    """Return the mean bound and its KL term."""
    return {
        "bound": float(np.mean(bound(targets, outputs), dtype="float64")),
        "kl": float(np.mean(outputs[:, -1], dtype="float64")),
    }


def sample(model: keras.Model, parts: Parts) -> list[str]:
    """Draw digits from the prior; each is a text with one of 16 shades for every pixel."""
    noise = np.random.default_rng(0).standard_normal((GLIMPSES, SHOWN, LATENT), "float32")
    logits = np.nan_to_num(model.get_layer("draw").generate(noise))
    shades = np.rint(15 * scipy.special.expit(logits)).astype(int)
    return ["".join(SHADES[s] for s in row) for row in shades]


def draw(axes: matplotlib.axes.Axes, made: Sequence[str]) -> None:
    """Plot the digits in rows."""
    shades = [[SHADES.index(s) for s in text] for text in made]
    tiles = np.pad(np.reshape(shades, (-1, SIDE, SIDE)), ((0, 0), (1, 1), (1, 1)))
    rows = tiles.reshape(-1, IN_A_ROW, SIDE + 2, SIDE + 2)
    sheet = rows.transpose(0, 2, 1, 3).reshape(len(rows) * (SIDE + 2), -1)
    axes.imshow(sheet, cmap="gray_r", vmin=0, vmax=15)


STUDY = Study(
    name="draw",
    title="DRAW",
    question="Does LayerNorm help DRAW, a generative model that draws digits with attention?",
    paper="Ba et al. 2016, Figure 5, after Gregor et al. 2015: DRAW with attention on binarized "
    "MNIST, with 64 glimpses and LSTMs of 256 units. The figure shows the variational bound by "
    "epoch. With LayerNorm it learns almost twice as fast. After 200 epochs it has 82.09 nats, "
    "and 82.36 without.",
    differences=f"Smaller: {GLIMPSES} glimpses of {POINTS} x {POINTS} points, LSTMs of {UNITS} "
    f"units, {LATENT} latent numbers for each glimpse, and {IMAGES:,} training digits. The "
    "optimizer is Adam, with gradients clipped at norm 1. The digits are binarized once with a "
    "fixed seed, so bounds of other binarizations are not comparable. The bound uses one z for "
    "each digit, from equal noise for all models. Half a nat counts.",
    revisions="The limit was 24 epochs at first, when all runs were still improving; the paper "
    "has 200. Now validation stops them. Three seeds left both questions open, so there are "
    "four.",
    work=Training(
        load,
        build,
        loss,
        score,
        "bound",
        maximize=False,
        level=LEVEL,
        drawings=Drawings(
            sample,
            draw,
            "Digits from the prior, by the models of seed 0: the probability of each pixel.",
        ),
    ),
    arms=arms({TASK: 128}, tuple(CELLS)),
    questions=(
        Question(
            12,
            f"LayerNorm needs fewer epochs (Figure 5, to a validation bound of {LEVEL:g})",
            "epochs",
            plus=((TASK, "LSTM"),),
            minus=((TASK, "LN-LSTM"),),
            threshold=0.5,
            unit="epochs",
            digits=1,
        ),
        Question(
            12,
            "LayerNorm ends better (Figure 5)",
            "bound",
            plus=((TASK, "LSTM"),),
            minus=((TASK, "LN-LSTM"),),
            threshold=0.5,
            unit="nats of a digit",
        ),
    ),
    # The hour limit comes first: about 2,000 rounds take an hour.
    full=Size(None, 9984, 4000, patience=8, seeds=4, rates=(1e-3, 3e-3, 1e-2), trial=4),
    smoke=Size(16, 16, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores={
        "bound": ("bound, nats", 1, 2),
        "kl": ("KL term of the bound, nats", 1, 2),
        "epochs": (f"epochs to {LEVEL:g} nats", 1, 1),
    },
    in_paper={(TASK, "bound"): {"LSTM": "82.36", "LN-LSTM": "82.09"}},
    figure=PaperFigure(
        5,
        "the variational bound of the test set by epoch; the numbers are those after 200 epochs",
        "the bound of the validation set",
        "epochs",
        (Curve("bound", "validation bound, nats"),),
    ),
)
