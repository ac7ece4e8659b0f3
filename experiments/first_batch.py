"""The largest gradient in the first updates, on sequences that all begin alike: claim 4."""

import pathlib

import keras
import numpy as np
import tensorflow as tf

from experiments import pixels
from experiments.harness.study import Arm, Measurement, Question, Size, Study, arms

UPDATES, MAX_POWER = 10, 300.0
FROM_NOISE = "BN-LSTM from noise"


def measure(arm: Arm, seed: int, data: pathlib.Path | None = None) -> dict[str, float]:
    """Return the largest gradient of any weight in the first updates, in powers of ten.

    A gradient that is NaN or infinite counts as 10^MAX_POWER.
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
    """Return the power of ten of a size, between -MAX_POWER and MAX_POWER.

    >>> powers(1e3), powers(float("nan"))
    (3.0, 300.0)
    """
    if not np.isfinite(size):
        return MAX_POWER
    with np.errstate(divide="ignore"):
        return float(np.clip(np.log10(size), -MAX_POWER, MAX_POWER))


def _decades(statement: str, plus: str, minus: str, threshold: float) -> Question:
    return Question(
        4,
        statement,
        "gradient",
        ((pixels.IN_ORDER, plus),),
        ((pixels.IN_ORDER, minus),),
        threshold,
        unit="powers of ten",
        digits=1,
    )


STUDY = Study(
    name="first_batch",
    title="Gradients of the first batches",
    question="The first pixels of all MNIST digits are black, so their variance over a batch is "
    "zero. How large are the gradients of the first updates?",
    paper="Cooijmans et al. 2016, section 5.1: the first pixels of every digit are black, and "
    "the variance over a batch is zero. So the initial states of their BN-LSTM are noise. The "
    "paper shows no gradients.",
    differences="Nothing is smaller. The score is the largest gradient of any weight in the first "
    f"{UPDATES} updates. The optimizer is Adam, with gradients clipped at norm 1 and batches of "
    "64. All 784 pixels are read by LSTMs of 100 units, as in the [pixel study](pixels.md). A "
    f"gradient that is NaN or infinite counts as 10^{MAX_POWER:.0f}. One power of ten counts as "
    "a difference.",
    work=Measurement(measure),
    arms=arms({pixels.IN_ORDER: 64, pixels.PERMUTED: 64}, (*pixels.LAYERS, FROM_NOISE)),
    questions=(
        _decades(
            "from zero states, LayerNorm's largest gradient is no larger than without a norm",
            "LSTM",
            "LN-LSTM",
            -1.0,
        ),
        _decades(
            "from zero states, BatchNorm's largest gradient is larger than LayerNorm's",
            "BN-LSTM",
            "LN-LSTM",
            1.0,
        ),
        Question(
            4,
            "from noise, BatchNorm's largest gradient stays below 1,000",
            "gradient",
            minus=((pixels.IN_ORDER, FROM_NOISE),),
            threshold=-3.0,
            unit="powers of ten",
            digits=1,
        ),
    ),
    full=Size(None, 0, 0, patience=0, seeds=5, rates=()),
    smoke=Size(None, 0, 0, patience=0, seeds=1, rates=()),
    scores={
        "gradient": (f"largest gradient, powers of ten ({MAX_POWER:.0f}: NaN or infinite)", 1, 1)
    },
)
