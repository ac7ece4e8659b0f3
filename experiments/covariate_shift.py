"""How far the inputs of a layer move while the layers before it learn; whitening beside BN."""

import pathlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from experiments.harness.mnist import load_mnist
from experiments.harness.norms import NORMS, REMEMBERED
from experiments.harness.study import Arm, Measurement, Parts, Question, Scores, Size, Study, arms

TASK = "MNIST, two hidden layers"
UNITS, BATCH = 32, 128
RATES = (3e-3, 1e-2, 3e-2)  # of which validation chooses one
UPDATES, EVERY = 800, 40  # EVERY: updates between two looks
LOOKED_AT = 500  # digits
PERCENTILES = (15, 50, 85)


@keras.saving.register_keras_serializable("keras_norm_experiments")
class Whitening(keras.layers.Layer):
    """y = gamma L^-1 (x - mean) + beta with L L^T = cov(x) + eps I: what BatchNorm does without.

    Mean and covariance are the batch's in training, and moving averages at inference.
    """

    def __init__(self, momentum: float, epsilon: float = 1e-3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum, self.epsilon = momentum, epsilon

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Make gamma, beta and the moving averages."""
        n = input_shape[-1]
        self.gamma = self.add_weight(shape=(n,), initializer="ones")
        self.beta = self.add_weight(shape=(n,), initializer="zeros")
        self.mean = self.add_weight(shape=(n,), initializer="zeros", trainable=False)
        self.covariance = self.add_weight(shape=(n, n), initializer="identity", trainable=False)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Whiten a batch."""
        mean, covariance = self.mean, self.covariance
        if training:
            mean = ops.mean(inputs, axis=0)
            centred = inputs - mean
            count = ops.cast(ops.shape(inputs)[0], inputs.dtype)
            covariance = ops.transpose(centred) @ centred / count
            for moving, now in ((self.mean, mean), (self.covariance, covariance)):
                moving.assign(self.momentum * moving + (1 - self.momentum) * now)
        L = ops.linalg.cholesky(covariance + self.epsilon * ops.eye(inputs.shape[-1]))
        y = ops.transpose(tf.linalg.triangular_solve(L, ops.transpose(inputs - mean), lower=True))
        return self.gamma * y + self.beta


def norm_of(model: str) -> keras.layers.Layer:
    """The norm of a model."""
    if model == "whitening":
        return Whitening(1 - BATCH / REMEMBERED)
    return NORMS[model](BATCH)


def measure(arm: Arm, seed: int, data: pathlib.Path | None) -> Scores:
    """The scores at the learning rate with the best validation."""
    parts = load_mnist(data, (784,), None)
    found = []
    for rate in RATES:
        keras.utils.set_random_seed(seed)
        found.append(_trained(arm, rate, seed, parts))
    return max(found, key=lambda scores: scores["validation"])


def _trained(arm: Arm, rate: float, seed: int, parts: Parts) -> Scores:
    """Train for UPDATES, and look at what enters the second activation every EVERY updates.

    The shift between two looks is by how much the percentiles of a unit moved, over the distance
    between its outer ones; the mean over units, percentiles and looks. What is looked at runs as in
    training, and its statistics join the moving ones: so it is of the training digits.
    """
    inputs = keras.Input((784,), name="pixels")
    x = keras.layers.ReLU()(norm_of(arm.model)(keras.layers.Dense(UNITS)(inputs)))
    entering = norm_of(arm.model)(keras.layers.Dense(UNITS)(x))
    outputs = keras.layers.Dense(10, "softmax", name="digit")(keras.layers.ReLU()(entering))
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    looked_at = keras.Model(inputs, entering)
    x, y = parts["training"]
    order = np.random.default_rng(seed).permutation(len(y))
    looks = []
    for look in range(UPDATES // EVERY):
        rows = np.take(order, range(look * EVERY * BATCH, (look + 1) * EVERY * BATCH), mode="wrap")
        model.fit(x[rows], y[rows], BATCH, shuffle=False, verbose=0)
        found = looked_at(x[:LOOKED_AT], training=True)
        looks.append(np.percentile(np.array(found), PERCENTILES, axis=0))
    validation, accuracy = (
        model.evaluate(*parts[part], batch_size=500, verbose=0)[1]
        for part in ("validation", "test")
    )
    return {
        "shift": shift(np.array(looks)),
        "accuracy": accuracy,
        "validation": validation,
        "rate": rate,
    }


def shift(looks: np.ndarray) -> float:
    """The mean move of percentiles (looks, percentiles, units), in distances of the outer ones.

    >>> shift(np.array([[[0.0], [1.0], [2.0]], [[1.0], [2.0], [3.0]]]))
    0.5
    """
    distance = looks[1:, -1] - looks[1:, 0]
    return float(np.mean(np.abs(np.diff(looks, axis=0)) / np.maximum(distance, 1e-6)[:, None]))


STUDY = Study(
    name="covariate_shift",
    title="Covariate shift, and whitening",
    paper="Ioffe and Szegedy 2015 (arXiv 1502.03167), Figure 1: over the training of an MNIST net "
    "the 15th, 50th and 85th percentile of what enters an activation move less with "
    "BatchNorm. They take it in place of whitening, which costs more.",
    otherwise="Smaller: 800 updates of batches of 128 for 50,000 of 60. Two hidden layers of 32 "
    "units with ReLU for three of 100 with sigmoids; Adam, each run with the one of three "
    "learning rates that validates best after all its updates: 0.003, 0.01 and 0.03. Whitening "
    "is by the Cholesky factor of the batch's covariance, to whose diagonal 0.001 is added; "
    "BatchNorm adds 0.00001 to its variances.",
    changed="The learning rate was 0.001 at first, for all. Then there were three, of which the "
    "largest, 0.01, was the best of whitening in every run, and the smallest, 0.001, in no run of "
    "any net: now there is a larger one.",
    work=Measurement(measure),
    arms=arms({TASK: BATCH}, ("none", "BN", "LN", "whitening")),
    questions=(
        *(
            Question(
                11,
                f"{name} lessens the shift",
                "shift",
                ((TASK, "none"),),
                ((TASK, norm),),
                above=0.01,
                unit="of the distance between the percentiles",
                digits=3,
            )
            for name, norm in (("BatchNorm", "BN"), ("LayerNorm", "LN"))
        ),
        Question(
            11,
            "BatchNorm learns as much as whitening in as many updates",
            "accuracy",
            ((TASK, "BN"),),
            ((TASK, "whitening"),),
            above=-0.2,
            scale=100,
            unit="points of accuracy",
        ),
    ),
    full=Size(None, 0, 0, patience=0, seeds=5, rates=()),
    smoke=Size(None, 0, 0, patience=0, seeds=1, rates=()),
    minutes=0.5,
    scores={
        "shift": ("shift between two looks", 1, 3),
        "accuracy": ("test accuracy, %", 100, 2),
    },
)
