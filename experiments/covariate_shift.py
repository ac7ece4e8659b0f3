"""Shift of a layer's inputs while the layers before it learn, with BatchNorm and whitening."""

import pathlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from experiments.harness.mnist import load_mnist
from experiments.harness.norms import AVERAGED_SAMPLES, NORMS
from experiments.harness.study import Arm, Measurement, Parts, Question, Scores, Size, Study, arms

TASK = "MNIST, two hidden layers"
UNITS, BATCH = 32, 128
RATES = (3e-3, 1e-2, 3e-2)  # learning rates; validation chooses one
UPDATES, EVERY = 800, 40  # EVERY: updates between two recordings
RECORDED = 500  # digits whose layer inputs are recorded
PERCENTILES = (15, 50, 85)


@keras.saving.register_keras_serializable("keras_norm_experiments")
class Whitening(keras.layers.Layer):
    """Whiten a batch: y = gamma L^-1 (x - mean) + beta with L L^T = cov(x) + epsilon I.

    Training uses the mean and covariance of the batch. Inference uses moving averages. BatchNorm
    is a cheaper approximation of it.
    """

    def __init__(self, momentum: float, epsilon: float = 1e-3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum, self.epsilon = momentum, epsilon

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create gamma, beta and the moving averages."""
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
            centered = inputs - mean
            count = ops.cast(ops.shape(inputs)[0], inputs.dtype)
            covariance = ops.transpose(centered) @ centered / count
            for moving, now in ((self.mean, mean), (self.covariance, covariance)):
                moving.assign(self.momentum * moving + (1 - self.momentum) * now)
        L = ops.linalg.cholesky(covariance + self.epsilon * ops.eye(inputs.shape[-1]))
        y = ops.transpose(tf.linalg.triangular_solve(L, ops.transpose(inputs - mean), lower=True))
        return self.gamma * y + self.beta


def norm_of(model: str) -> keras.layers.Layer:
    """Return the norm layer of a model."""
    if model == "whitening":
        return Whitening(1 - BATCH / AVERAGED_SAMPLES)
    return NORMS[model](BATCH)


def measure(arm: Arm, seed: int, data: pathlib.Path | None) -> Scores:
    """Train with each learning rate, and return the scores of the best one in validation."""
    parts = load_mnist(data, (784,), None)
    found = []
    for rate in RATES:
        keras.utils.set_random_seed(seed)
        found.append(_trained(arm, rate, seed, parts))
    return max(found, key=lambda scores: scores["validation"])


def _trained(arm: Arm, rate: float, seed: int, parts: Parts) -> Scores:
    """Train for UPDATES, and record the inputs of the second activation every EVERY updates.

    The shift between two recordings is the distance that the percentiles of a unit moved, divided
    by the distance between its outer percentiles. The score is the mean over units, percentiles and
    recordings. The recorded digits are training digits, because the recording runs in training mode
    and updates the moving statistics.
    """
    inputs = keras.Input((784,), name="pixels")
    x = keras.layers.ReLU()(norm_of(arm.model)(keras.layers.Dense(UNITS)(inputs)))
    entering = norm_of(arm.model)(keras.layers.Dense(UNITS)(x))
    outputs = keras.layers.Dense(10, "softmax", name="digit")(keras.layers.ReLU()(entering))
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    recorder = keras.Model(inputs, entering)
    x, y = parts["training"]
    order = np.random.default_rng(seed).permutation(len(y))
    recorded = []
    for k in range(UPDATES // EVERY):
        rows = np.take(order, range(k * EVERY * BATCH, (k + 1) * EVERY * BATCH), mode="wrap")
        model.fit(x[rows], y[rows], BATCH, shuffle=False, verbose=0)
        found = recorder(x[:RECORDED], training=True)
        recorded.append(np.percentile(np.array(found), PERCENTILES, axis=0))
    validation, accuracy = (
        model.evaluate(*parts[part], batch_size=500, verbose=0)[1]
        for part in ("validation", "test")
    )
    return {
        "shift": shift(np.array(recorded)),
        "accuracy": accuracy,
        "validation": validation,
        "rate": rate,
    }


def shift(recorded: np.ndarray) -> float:
    """Return the mean change of percentiles, relative to the distance of the outer percentiles.

    Args:
        recorded: (recordings, percentiles, units).

    >>> shift(np.array([[[0.0], [1.0], [2.0]], [[1.0], [2.0], [3.0]]]))
    0.5
    """
    distance = recorded[1:, -1] - recorded[1:, 0]
    return float(np.mean(np.abs(np.diff(recorded, axis=0)) / np.maximum(distance, 1e-6)[:, None]))


STUDY = Study(
    name="covariate_shift",
    title="Covariate shift and whitening",
    question="Do the inputs of a layer shift less during training with a norm? Does BatchNorm "
    "reach the accuracy of whitening?",
    paper="Ioffe and Szegedy 2015 (arXiv 1502.03167), Figure 1: in an MNIST network, the 15th, "
    "50th and 85th percentiles of an activation's inputs move less with BatchNorm. The paper "
    "uses BatchNorm instead of whitening, because whitening costs more.",
    differences="Smaller: 800 updates of batches of 128, instead of 50,000 of batches of 60. The "
    "network has two hidden layers of 32 units with ReLU, instead of three layers of 100 with "
    "sigmoids. The optimizer is Adam. Each run uses the learning rate of 0.003, 0.01 and 0.03 "
    "that validates best after all updates. Whitening uses the Cholesky factor of the batch "
    "covariance, with 0.001 added to the diagonal. BatchNorm adds 0.00001 to its variances.",
    revisions="The learning rate was 0.001 for all models at first. Then there were three rates "
    "from 0.001 to 0.01. Whitening chose the largest rate in every run, and no model chose the "
    "smallest rate in any run. So the largest rate is 0.03 now.",
    work=Measurement(measure),
    arms=arms({TASK: BATCH}, ("none", "BN", "LN", "whitening")),
    questions=(
        *(
            Question(
                11,
                f"{name} reduces the shift",
                "shift",
                ((TASK, "none"),),
                ((TASK, norm),),
                threshold=0.01,
                unit="percentile distances",
                digits=3,
            )
            for name, norm in (("BatchNorm", "BN"), ("LayerNorm", "LN"))
        ),
        Question(
            11,
            "with equal updates, BatchNorm reaches the accuracy of whitening",
            "accuracy",
            ((TASK, "BN"),),
            ((TASK, "whitening"),),
            threshold=-0.2,
            scale=100,
            unit="points of accuracy",
        ),
    ),
    full=Size(None, 0, 0, patience=0, seeds=5, rates=()),
    smoke=Size(None, 0, 0, patience=0, seeds=1, rates=()),
    scores={
        "shift": ("shift between two recordings", 1, 3),
        "accuracy": ("test accuracy, %", 100, 2),
    },
)
