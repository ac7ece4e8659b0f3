"""MNIST pixel by pixel: Cooijmans et al. 2016, section 5.1: claims 1 and 12."""

import pathlib
from typing import Any

import keras
import numpy as np
from keras import ops

import keras_norm
from experiments.harness import metrics
from experiments.harness.mnist import load_mnist
from experiments.harness.study import Arm, Figures, Parts, Question, Size, Study, Training, arms

IN_ORDER, PERMUTED = "in order", "permuted"
PIXELS, UNITS, BATCH = 784, 100, 64
VALIDATED = 2500  # digits; more would take as long as learning does
UPDATES, IN_ROUND, TRIED = 40_000, 400, 2  # updates of a run and of a round, rounds of a trial
NOISE = 0.1
LEARNED = 0.7  # nats of validation

# From the keyword arguments that all take.
LAYERS = {
    "LSTM": lambda **options: keras_norm.NormLSTM(UNITS, **options),
    "LN-LSTM": lambda **options: keras_norm.LayerNormLSTM(UNITS, **options),
    "BN-LSTM": lambda **options: keras_norm.BatchNormLSTM(UNITS, PIXELS, **options),
}


@keras.saving.register_keras_serializable("keras_norm_experiments")
class IdentityCandidate(keras.initializers.Initializer):
    """The identity for an LSTM's candidate, orthogonal matrices for its gates (section 5)."""

    def __call__(self, shape: tuple[int, int], dtype: Any = None) -> Any:
        """A recurrent kernel (units, 4 units) with the blocks i, f, c, o."""
        units, _ = shape
        blocks = [keras.initializers.Orthogonal() for _ in range(4)]
        blocks[2] = keras.initializers.Identity()
        return ops.concatenate([block((units, units), dtype) for block in blocks], axis=1)


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """All digits as sequences of pixels; permuted, those of every digit in one random order."""
    order = np.arange(PIXELS)
    if task == PERMUTED:
        order = np.random.default_rng(0).permutation(PIXELS)
    parts = load_mnist(folder, (28 * 28, 1), samples)
    few = {"validation": VALIDATED}
    return {name: (x[: few.get(name), order], y[: few.get(name)]) for name, (x, y) in parts.items()}


def network(model: str, noise: float) -> keras.Model:
    """A classifier of sequences of pixels.

    Args:
        model: one of LAYERS.
        noise: deviation of the first h in training; else h starts from zeros.
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
    """A BN-LSTM that reads digits in order starts from noise, as the paper's.

    Its first pixels are black: all digits have the same states, and BatchNorm no variance.
    """
    return network(arm.model, NOISE if (arm.task, arm.model) == (IN_ORDER, "BN-LSTM") else 0.0)


def apart(model: keras.Model, parts: Parts) -> Figures:
    """Whether the class of a test digit is another one where the model runs as in training."""
    x, _ = parts["test"]
    inference = model.predict(x, batch_size=500, verbose=0).argmax(axis=-1)  # training moves it
    batches = [x[start : start + BATCH] for start in range(0, len(x), BATCH)]
    training = np.concatenate([np.argmax(model(b, training=True), axis=-1) for b in batches])
    return {"apart": training != inference}


def _points(part: str, task: str, model: str, above: float) -> Question:
    return Question(
        12,
        f"{part} ({task}, 784 steps)",
        "accuracy",
        ((task, model),),
        ((task, "LSTM"),),
        above,
        scale=100,
        unit="points of accuracy",
    )


STUDY = Study(
    name="pixels",
    title="MNIST, pixel by pixel",
    paper="Cooijmans et al. 2016, section 5.1: an LSTM of 100 units reads the 784 pixels of a "
    "digit, in order or in one random order, and learns for 100,000 updates. BatchNorm in the "
    "recurrence learns faster, and permuted digits better. In order it starts from noise, since "
    "the first pixels are black.",
    otherwise=f"Smaller: at most {UPDATES:,} updates for 100,000. {VALIDATED:,} digits to stop "
    f"by, once in half an epoch; learning rates are chosen on the first {IN_ROUND * TRIED:,} "
    "updates. Adam for RMSProp with momentum, as in all studies here, for every model alike; "
    "gradients clipped at norm 1, batches of 64 and initial matrices as in the paper. An LN-LSTM "
    "is there too, which starts from zeros. In order the LSTM did not learn: its validation rose "
    "and fell between 24 and 61 % until patience ended it after 9,600 updates; it has the "
    "paper's figure after ten times as many. Nothing is decided beside it.",
    changed=f"A model counts as one that has learned once its validation is below {LEARNED:g} "
    "nats: before that, patience does not end a run. This rule came when runs had been seen; the "
    "LSTM's in order is older than it.",
    work=Training(
        load,
        build,
        "sparse_categorical_crossentropy",
        metrics.each_class,
        "nll",
        higher=False,
        recalibrated=True,
        measure=apart,
        learned=LEARNED,
    ),
    arms=arms({IN_ORDER: BATCH, PERMUTED: BATCH}, tuple(LAYERS)),
    questions=(
        # In order, noise alone makes them others.
        Question(
            1,
            f"BatchNorm's answers in training are others than in inference ({PERMUTED})",
            "apart",
            ((PERMUTED, "BN-LSTM"),),
            above=0.1,
            scale=100,
            unit="% of the digits",
        ),
        Question(
            1,
            f"LayerNorm's are the same ({PERMUTED})",
            "apart",
            minus=((PERMUTED, "LN-LSTM"),),
            above=-0.1,
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
    minutes=45.0,
    scores={
        "accuracy": ("test accuracy, %", 100, 2),
        "nll": ("nll, nats", 1, 3),
        "apart": ("other class in training than in inference, %", 100, 2),
    },
    figures={
        (IN_ORDER, "LSTM"): "98.9",
        (IN_ORDER, "BN-LSTM"): "99.0",
        (PERMUTED, "LSTM"): "90.2",
        (PERMUTED, "BN-LSTM"): "95.4",
    },
)
