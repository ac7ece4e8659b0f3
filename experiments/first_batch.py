"""Sequences that begin alike: the gradients of the first batches, without training: claim 4."""

import pathlib

import keras
import numpy as np
import tensorflow as tf

from experiments import pixels
from experiments.harness.study import Arm, Measurement, Question, Size, Study, arms

UPDATES, MOST = 10, 300.0
FROM_NOISE = "BN-LSTM from noise"


def measure(arm: Arm, seed: int, data: pathlib.Path | None = None) -> dict[str, float]:
    """The largest gradient of any weight in the first updates, in powers of ten.

    A gradient that is no number is that of 10^MOST.
    """
    x, y = pixels.load(arm.task, None, data)["training"]
    model = pixels.network(
        arm.model.removesuffix(" from noise"), pixels.NOISE if arm.model == FROM_NOISE else 0.0
    )
    optimizer = keras.optimizers.Adam(global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)

    @tf.function
    def update(digits: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            found = model(digits, training=True)
            loss = keras.losses.sparse_categorical_crossentropy(classes, found)
            loss = tf.reduce_mean(loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients)
        return tf.reduce_max(tf.concat([tf.reshape(abs(g), [-1]) for g in gradients], 0))

    order = np.random.default_rng(seed).permutation(len(y))[: UPDATES * arm.batch]
    largest = [float(update(x[rows], y[rows])) for rows in order.reshape(UPDATES, -1)]
    return {"gradient": powers(max(largest, key=lambda g: g if np.isfinite(g) else np.inf))}


def powers(size: float) -> float:
    """Of ten, within MOST either way.

    >>> powers(1e3), powers(float("nan"))
    (3.0, 300.0)
    """
    if not np.isfinite(size):
        return MOST
    with np.errstate(divide="ignore"):
        return float(np.clip(np.log10(size), -MOST, MOST))


def _decades(part: str, plus: str, minus: str, above: float) -> Question:
    return Question(
        4,
        part,
        "gradient",
        ((pixels.IN_ORDER, plus),),
        ((pixels.IN_ORDER, minus),),
        above,
        unit="powers of ten",
        digits=1,
    )


STUDY = Study(
    name="first_batch",
    title="The first batches of digits that begin black",
    paper="Cooijmans et al. 2016, section 5.1: the first pixels of every digit are black, and the "
    "variance over a batch is zero; so their BN-LSTM starts from noise. They show no gradient.",
    otherwise=f"Smaller: nothing. The largest gradient of any weight in the first {UPDATES} "
    "updates by Adam, gradients clipped at norm 1, batches of 64, all 784 pixels, LSTMs of 100 "
    f"units as in the study of pixels. What is no number counts as 10^{MOST:.0f}. One power of "
    "ten is a difference.",
    work=Measurement(measure),
    arms=arms({pixels.IN_ORDER: 64, pixels.PERMUTED: 64}, (*pixels.LAYERS, FROM_NOISE)),
    questions=(
        _decades(
            "LayerNorm is stable from the first batch without noise: its gradient is no larger "
            "than without a norm",
            "LSTM",
            "LN-LSTM",
            -1.0,
        ),
        _decades(
            "recurrent BatchNorm is not: its gradient is larger than LayerNorm's",
            "BN-LSTM",
            "LN-LSTM",
            1.0,
        ),
        Question(
            4,
            "from noise it is stable",
            "gradient",
            minus=((pixels.IN_ORDER, FROM_NOISE),),
            above=-3.0,
            unit="powers of ten",
            digits=1,
        ),
    ),
    full=Size(None, 0, 0, patience=0, seeds=5, rates=()),
    smoke=Size(None, 0, 0, patience=0, seeds=1, rates=()),
    minutes=0.3,
    scores={"gradient": (f"largest gradient, powers of ten ({MOST:.0f}: no number)", 1, 1)},
)
