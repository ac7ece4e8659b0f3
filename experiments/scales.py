"""What the norms erase and what they keep, and whether training and inference agree: no training.

Ba et al. 2016, Table 1 (invariances), and claims 1 and 9.
"""

import pathlib

import keras
import numpy as np
import tensorflow as tf

import keras_norm
from experiments.harness.study import Arm, Measurement, Question, Size, Study

INVARIANT = 1e-6  # rounding in float64 moves outputs of size 1 by less; what changes them, by more
EPSILON = 1e-12  # so small that it does not count
SAMPLES, FEATURES, UNITS, STEPS, SEEN = 64, 32, 64, 100, 8
SCALES, MODES = "scales", "training against inference"

NORMS = {
    "BN": lambda: keras_norm.BatchNormalization(epsilon=EPSILON, dtype="float64"),
    "LN": lambda: keras_norm.LayerNormalization(epsilon=EPSILON, dtype="float64"),
    "RMS": lambda: keras_norm.RMSNormalization(epsilon=EPSILON, dtype="float64"),
}

# What is done to the data x (samples, features) and the weights W (features, units).
CHANGES = {
    "weight matrix re-scaled": lambda x, W: (x, 3 * W),
    "weight matrix re-centred": lambda x, W: (x, W + W[:, :1]),  # one vector for every unit
    "one unit's weights re-scaled": lambda x, W: (x, W * threefold_first(W.shape[1])),
    "dataset re-scaled": lambda x, W: (3 * x, W),
    "dataset re-centred": lambda x, W: (x + x[:1], W),
    "one sample re-scaled": lambda x, W: (x * threefold_first(len(x))[:, None], W),
}

LSTMS = {
    "LN-LSTM": lambda: keras_norm.LayerNormLSTM(UNITS, dtype="float64"),
    "BN-LSTM": lambda: keras_norm.BatchNormLSTM(UNITS, STEPS, momentum=None, dtype="float64"),
}


def threefold_first(size: int) -> np.ndarray:
    """Three, and then ones."""
    return np.where(np.arange(size) == 0, 3.0, 1.0)


def measure(arm: Arm, seed: int, data: pathlib.Path | None = None) -> dict[str, float]:
    """The figures of an arm."""
    rng = np.random.default_rng(seed)
    if arm.task == SCALES:
        return kept_scales(NORMS[arm.model](), rng)
    if arm.task == MODES:
        return {"gap": mode_gap(LSTMS[arm.model](), rng)}
    x, W = rng.normal(size=(SAMPLES, FEATURES)), rng.normal(size=(FEATURES, UNITS))
    before, after = (
        np.array(NORMS[arm.model]()(x @ W, training=True))
        for x, W in ((x, W), CHANGES[arm.task](x, W))
    )
    return {"moved": float(np.abs(after - before).max())}


def kept_scales(norm: keras.layers.Layer, rng: np.random.Generator) -> dict[str, float]:
    """How much of the differences of scale a norm leaves, between features and between samples.

    The numbers are normal, each feature and each sample times a scale whose logarithm is normal.
    What is left of it is the correlation of the logarithms of the deviations before and after: 0
    where after the norm all are equal.
    """
    features, samples = (np.exp(rng.normal(size=n)) for n in (FEATURES, SAMPLES))
    x = rng.normal(size=(SAMPLES, FEATURES)) * features * samples[:, None]
    y = np.array(norm(x, training=True))

    def kept(scales: np.ndarray, axis: int) -> float:
        after = np.log(y.std(axis=axis))
        if after.std() < INVARIANT:
            return 0.0
        return float(np.corrcoef(np.log(scales), after)[0, 1])

    return {"features": kept(features, 0), "samples": kept(samples, 1)}


def mode_gap(layer: keras.layers.Layer, rng: np.random.Generator) -> float:
    """How far an LSTM's states in training are from those in inference, on a new batch.

    The moving statistics are the mean of those of SEEN other batches.
    """
    run = tf.function(layer)
    *seen, x = rng.normal(size=(SEEN + 1, SAMPLES, STEPS, FEATURES))
    for batch in seen:
        run(batch, training=True)
    inference, training = (np.array(run(x, training=mode)) for mode in (False, True))
    return float(np.abs(training - inference).max())


def _kept(part: str, score: str, plus: str, minus: str) -> Question:
    return Question(9, part, score, ((SCALES, plus),), ((SCALES, minus),), 0.5, unit="correlation")


STUDY = Study(
    name="scales",
    title="What a norm erases and what it keeps",
    paper="Ba et al. 2016, Table 1: which changes of weights and data leave the outputs where they "
    "are; by algebra.",
    otherwise="Smaller: nothing. Computed in float64 on random data, with RMSNorm beside the "
    "two. Differences of scale: numbers whose features and samples have log-normal scales. "
    "Training against inference: LSTMs with random weights, inputs of 100 timesteps.",
    work=Measurement(measure),
    arms=(
        *(Arm(change, norm) for change in CHANGES for norm in NORMS),
        *(Arm(SCALES, norm) for norm in NORMS),
        *(Arm(MODES, model) for model in LSTMS),
    ),
    questions=(
        Question(
            1,
            "BatchNorm computes otherwise in training than in inference",
            "gap",
            plus=((MODES, "BN-LSTM"),),
            above=0.01,
            unit="of states within 1",
        ),
        Question(
            1,
            "LayerNorm computes the same",
            "gap",
            minus=((MODES, "LN-LSTM"),),
            above=-1e-6,
            unit="of states within 1",
            digits=6,
        ),
        _kept(
            "BatchNorm erases the scales of features, LayerNorm keeps them", "features", "LN", "BN"
        ),
        _kept(
            "LayerNorm erases the scales of samples, BatchNorm keeps them", "samples", "BN", "LN"
        ),
    ),
    full=Size(None, 0, 0, patience=0, seeds=5, rates=()),
    smoke=Size(None, 0, 0, patience=0, seeds=1, rates=()),
    minutes=0.01,
    scores={
        "moved": ("moved by", 1, 3),
        "features": ("scales of features kept, correlation", 1, 2),
        "samples": ("scales of samples kept, correlation", 1, 2),
        "gap": ("states in training from those in inference, at most", 1, 3),
    },
)
