"""MNIST pixel by pixel: Cooijmans et al. 2016, section 5.1. Claims 1 and 12."""

import pathlib
from typing import Any

import keras
import numpy as np
from keras import ops

import keras_norm
from experiments.harness import metrics
from experiments.harness.mnist import load_mnist
from experiments.harness.study import (
    Arm,
    Parts,
    Question,
    SampleScores,
    Size,
    Study,
    Training,
    arms,
)

IN_ORDER, PERMUTED = "in order", "permuted"
PIXELS, UNITS, BATCH = 784, 100, 64
VALIDATED = 2500  # validation digits; more would take as long as the training
UPDATES, IN_ROUND, TRIED = 40_000, 400, 2  # updates of a run and of a round, rounds of a trial
NOISE = 0.1
LEARNED = 0.7  # validation nll in nats
LAYERS = {
    "LSTM": lambda **options: keras_norm.NormLSTM(UNITS, **options),
    "LN-LSTM": lambda **options: keras_norm.LayerNormLSTM(UNITS, **options),
    "BN-LSTM": lambda **options: keras_norm.BatchNormLSTM(UNITS, PIXELS, **options),
}


@keras.saving.register_keras_serializable("keras_norm_experiments")
class IdentityCandidate(keras.initializers.Initializer):
    """Initialize an LSTM's candidate with the identity, its gates orthogonally (section 5)."""

    def __call__(self, shape: tuple[int, int], dtype: Any = None) -> Any:
        """Return a recurrent kernel (units, 4 units) with the blocks i, f, c, o."""
        units, _ = shape
        blocks = [keras.initializers.Orthogonal() for _ in range(4)]
        blocks[2] = keras.initializers.Identity()
        return ops.concatenate([block((units, units), dtype) for block in blocks], axis=1)


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load all digits as sequences of pixels.

    In the permuted task, all digits have their pixels in one random order.
    """
    order = np.arange(PIXELS)
    if task == PERMUTED:
        order = np.random.default_rng(0).permutation(PIXELS)
    parts = load_mnist(folder, (28 * 28, 1), samples)
    few = {"validation": VALIDATED}
    return {name: (x[: few.get(name), order], y[: few.get(name)]) for name, (x, y) in parts.items()}


def network(model: str, noise: float) -> keras.Model:
    """Build a classifier of sequences of pixels.

    Args:
        model: a name in LAYERS.
        noise: deviation of the initial h in training; 0 for zeros.
    """
    inputs = keras.Input((None, 1), name="pixels")
    h = c = ops.repeat(ops.zeros_like(inputs[:, 0]), UNITS, axis=1)
    if noise:
        h = keras.layers.GaussianNoise(noise, seed=0)(h)
    recurrent = LAYERS[model](
        kernel_initializer="orthogonal", recurrent_initializer=IdentityCandidate()
    )
    softmax = keras.layers.Dense(10, "softmax", kernel_initializer="orthogonal", name="digit")
    return keras.Model(inputs, softmax(recurrent(inputs, initial_state=[h, c])))


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Build the classifier of an arm.

    The BN-LSTM starts from noise on digits in order, as in the paper. The first pixels are black,
    so without noise all digits have equal states and the batch variance is zero.
    """
    return network(arm.model, NOISE if (arm.task, arm.model) == (IN_ORDER, "BN-LSTM") else 0.0)


def apart(model: keras.Model, parts: Parts) -> SampleScores:
    """Whether training mode and inference predict different classes for each test digit."""
    x, _ = parts["test"]
    # Inference first: the training mode updates the moving statistics.
    inference = model.predict(x, batch_size=500, verbose=0).argmax(axis=-1)
    batches = [x[start : start + BATCH] for start in range(0, len(x), BATCH)]
    training = np.concatenate([np.argmax(model(b, training=True), axis=-1) for b in batches])
    return {"apart": training != inference}


def _points(statement: str, task: str, model: str, threshold: float) -> Question:
    return Question(
        12,
        f"{statement} ({task}, 784 steps)",
        "accuracy",
        ((task, model),),
        ((task, "LSTM"),),
        threshold,
        scale=100,
        unit="points of accuracy",
    )


STUDY = Study(
    name="pixels",
    title="MNIST, pixel by pixel",
    question="Does a norm in an LSTM help to classify digits that are read pixel by pixel?",
    paper="Cooijmans et al. 2016, section 5.1: an LSTM of 100 units reads the 784 pixels of a "
    "digit, in order or in one random order. It learns for 100,000 updates. Recurrent BatchNorm "
    "learns faster, and classifies permuted digits better. In order it starts from noise, "
    "because the first pixels are black.",
    differences=f"Smaller: at most {UPDATES:,} updates instead of 100,000. {VALIDATED:,} digits "
    f"validate, every half epoch. The first {IN_ROUND * TRIED:,} updates choose the learning "
    "rate. All models use Adam instead of RMSProp with momentum, as in all studies here. "
    "Clipping at norm 1, batches of 64 and initial matrices are those of the paper. An LN-LSTM "
    "is added; it starts from zeros. The LSTM did not learn digits in order: its validation "
    "accuracy varied between 24 and 61 % until patience stopped it after 9,600 updates. The "
    "paper's LSTM had ten times as many updates. So no question about it is decided.",
    revisions=f"A model counts as trained once its validation nll is below {LEARNED:g} nats, and "
    "patience does not stop a run before. This rule came after runs had been seen; the LSTM's "
    "run in order is older.",
    work=Training(
        load,
        build,
        "sparse_categorical_crossentropy",
        metrics.each_class,
        "nll",
        maximize=False,
        recalibrated=True,
        measure=apart,
        learned=LEARNED,
    ),
    arms=arms({IN_ORDER: BATCH, PERMUTED: BATCH}, tuple(LAYERS)),
    questions=(
        # In order, the noise alone changes the predictions.
        Question(
            1,
            f"BatchNorm predicts other classes in training mode than in inference ({PERMUTED})",
            "apart",
            ((PERMUTED, "BN-LSTM"),),
            threshold=0.1,
            scale=100,
            unit="% of the digits",
        ),
        Question(
            1,
            f"LayerNorm predicts equal classes in training mode and in inference ({PERMUTED})",
            "apart",
            minus=((PERMUTED, "LN-LSTM"),),
            threshold=-0.1,
            scale=100,
            unit="% of the digits",
        ),
        _points("recurrent BatchNorm is as good as no norm", IN_ORDER, "BN-LSTM", -0.2),
        _points("recurrent BatchNorm is better than no norm", PERMUTED, "BN-LSTM", 0.2),
        _points("LayerNorm is better than no norm", IN_ORDER, "LN-LSTM", 0.2),
        _points("LayerNorm is better than no norm", PERMUTED, "LN-LSTM", 0.2),
    ),
    full=Size(
        None,
        IN_ROUND * BATCH,
        UPDATES // IN_ROUND,
        patience=6,
        seeds=1,
        rates=(3e-4, 1e-3, 3e-3),
        trial=TRIED,
    ),
    smoke=Size(128, 64, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores={
        "accuracy": ("test accuracy, %", 100, 2),
        "nll": ("nll, nats", 1, 3),
        "apart": ("other class in training mode than in inference, %", 100, 2),
    },
    in_paper={
        (IN_ORDER, "accuracy"): {"LSTM": "98.9", "BN-LSTM": "99.0"},
        (PERMUTED, "accuracy"): {"LSTM": "90.2", "BN-LSTM": "95.4"},
    },
)
