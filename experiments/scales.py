"""Which differences of scale each norm removes, and whether training and inference agree.

Ba et al. 2016, Table 1 (invariances), without training.
"""

import pathlib

import keras
import numpy as np
import tensorflow as tf

import keras_norm
from experiments.harness.study import Arm, Measurement, Question, Size, Study

INVARIANT = 1e-6  # larger than float64 rounding of outputs near 1, smaller than a real change
EPSILON = 1e-12  # negligible beside the variances
SAMPLES, FEATURES, UNITS, STEPS, TRAINING_BATCHES = 64, 32, 64, 100, 8
SCALES, MODES = "scales", "training against inference"

NORMS = {
    "BN": lambda: keras_norm.BatchNormalization(epsilon=EPSILON, dtype="float64"),
    "LN": lambda: keras_norm.LayerNormalization(epsilon=EPSILON, dtype="float64"),
    "RMS": lambda: keras_norm.RMSNormalization(epsilon=EPSILON, dtype="float64"),
}

# Changes of the data x (samples, features) and the weights W (features, units).
CHANGES = {
    "weight matrix re-scaled": lambda x, W: (x, 3 * W),
    "weight matrix re-centered": lambda x, W: (x, W + W[:, :1]),  # adds one vector to every unit
    "one unit's weights re-scaled": lambda x, W: (x, W * threefold_first(W.shape[1])),
    "dataset re-scaled": lambda x, W: (3 * x, W),
    "dataset re-centered": lambda x, W: (x + x[:1], W),
    "one sample re-scaled": lambda x, W: (x * threefold_first(len(x))[:, None], W),
}

LSTMS = {
    "LN-LSTM": lambda: keras_norm.LayerNormLSTM(UNITS, dtype="float64"),
    "BN-LSTM": lambda: keras_norm.BatchNormLSTM(UNITS, STEPS, momentum=None, dtype="float64"),
}


def threefold_first(size: int) -> np.ndarray:
    """Return ones, with 3 in the first place."""
    return np.where(np.arange(size) == 0, 3.0, 1.0)


def measure(arm: Arm, seed: int, data: pathlib.Path | None = None) -> dict[str, float]:
    """Measure the change of outputs, the remaining scales or the gap between modes of an arm."""
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
    """Measure how much of the scale differences between features and between samples a norm keeps.

    Each feature and each sample of the normal input has a log-normal scale. The score is the
    correlation of the logarithms of the deviations before and after the norm. It is 0 if all
    deviations after the norm are equal.
    """
    features, samples = (np.exp(rng.normal(size=n)) for n in (FEATURES, SAMPLES))
    x = rng.normal(size=(SAMPLES, FEATURES)) * features * samples[:, None]
    y = np.array(norm(x, training=True))

    def correlation(scales: np.ndarray, axis: int) -> float:
        after = np.log(y.std(axis=axis))
        if after.std() < INVARIANT:
            return 0.0
        return float(np.corrcoef(np.log(scales), after)[0, 1])

    return {"features": correlation(features, 0), "samples": correlation(samples, 1)}


def mode_gap(layer: keras.layers.Layer, rng: np.random.Generator) -> float:
    """Return the largest difference of an LSTM's states between training and inference.

    The states are those of a new batch. The moving statistics are the mean over
    TRAINING_BATCHES other batches.
    """
    run = tf.function(layer)
    *batches, x = rng.normal(size=(TRAINING_BATCHES + 1, SAMPLES, STEPS, FEATURES))
    for batch in batches:
        run(batch, training=True)
    inference, training = (np.array(run(x, training=mode)) for mode in (False, True))
    return float(np.abs(training - inference).max())


def _kept(statement: str, score: str, plus: str, minus: str) -> Question:
    return Question(
        9, statement, score, ((SCALES, plus),), ((SCALES, minus),), 0.5, unit="correlation"
    )


STUDY = Study(
    name="scales",
    title="Invariance to scale, training and inference",
    question="Which changes of weights and data leave the outputs of a norm unchanged? Does a "
    "norm compute equal outputs in training and in inference?",
    paper="Ba et al. 2016, Table 1, derives by algebra which changes of weights and data leave "
    "the outputs unchanged.",
    differences="Nothing is smaller. The study computes in float64 on random data, and adds "
    "RMSNorm. For the scale differences, features and samples have log-normal scales. The "
    "correlation compares the logarithms of the scales before and after the norm. For training "
    "and inference, LSTMs with random weights read inputs of 100 timesteps.",
    work=Measurement(measure),
    arms=(
        *(Arm(change, norm) for change in CHANGES for norm in NORMS),
        *(Arm(SCALES, norm) for norm in NORMS),
        *(Arm(MODES, model) for model in LSTMS),
    ),
    questions=(
        Question(
            1,
            "BatchNorm's outputs differ between training and inference",
            "gap",
            plus=((MODES, "BN-LSTM"),),
            threshold=0.01,
            unit="(states are within 1)",
        ),
        Question(
            1,
            "LayerNorm's outputs are equal in training and inference",
            "gap",
            minus=((MODES, "LN-LSTM"),),
            threshold=-1e-6,
            unit="(states are within 1)",
            digits=6,
        ),
        _kept(
            "BatchNorm removes scale differences between features, LayerNorm keeps them",
            "features",
            "LN",
            "BN",
        ),
        _kept(
            "LayerNorm removes scale differences between samples, BatchNorm keeps them",
            "samples",
            "BN",
            "LN",
        ),
    ),
    full=Size(None, 0, 0, patience=0, seeds=5, rates=()),
    smoke=Size(None, 0, 0, patience=0, seeds=1, rates=()),
    scores={
        "moved": ("change of the outputs", 1, 3),
        "features": ("feature scales kept (correlation)", 1, 2),
        "samples": ("sample scales kept (correlation)", 1, 2),
        "gap": ("largest difference of the states, training and inference", 1, 3),
    },
)
