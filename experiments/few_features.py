"""LayerNorm of few input features in an LSTM, and four ways around it: claim 14."""

import pathlib
import warnings

import keras
import numpy as np

import keras_norm
from experiments import convolutional
from experiments.harness import metrics
from experiments.harness.study import Arm, Parts, Question, Size, Study, Training, arms

WAVES, GESTURES = "waves", "gestures"
FEATURES = (1, 2, 3, 4, 8)
UNITS, DENSE = 32, 16
STEPS = 24  # a longer gesture is cut off
BATCH, UPDATES = 64, 480
COUNTS = {"training": BATCH * UPDATES, "validation": 1024, "test": 2048}  # waves
PULSE = 0.3  # share of a period in which a pulse wave is high
CLASSES = {WAVES: 4, GESTURES: 20}

# Sensors of the waves: each measures gain * wave + offset, with noise of this deviation.
GAINS = np.array([1.0, 0.7, 1.3, 0.5, 0.9, 1.1, 0.6, 1.4])
OFFSETS = np.array([0.0, 0.3, -0.5, 0.8, -0.2, 0.5, -0.7, 0.1])
NOISES = np.array([0.15, 0.2, 0.1, 0.3, 0.25, 0.15, 0.2, 0.1])

LN = "LN-LSTM"
WITHOUT, JOINT, AFTER_DENSE = f"{LN}, no kernel_norm", f"{LN}, joint form", f"Dense, {LN}"
REMEDIES = (WITHOUT, JOINT, AFTER_DENSE)


def layer_norm() -> keras.layers.Layer:
    """The norm that LayerNormLSTM has."""
    return keras_norm.LayerNormalization(epsilon=1e-5)


# The recurrent layer of each model, from the number of timesteps.
LAYERS = {
    "LSTM": lambda steps: keras_norm.NormLSTM(UNITS),
    LN: lambda steps: keras_norm.LayerNormLSTM(UNITS),
    WITHOUT: lambda steps: keras_norm.NormLSTM(
        UNITS, norm={"recurrent_norm": layer_norm(), "state_norm": layer_norm()}
    ),
    JOINT: lambda steps: keras_norm.LayerNormLSTM(UNITS, norm_form="joint"),
    AFTER_DENSE: lambda steps: keras_norm.LayerNormLSTM(UNITS),
    "BN-LSTM": lambda steps: keras_norm.BatchNormLSTM(UNITS, steps),
}


def name_of(data: str, features: int) -> str:
    """The task of a data set and a number of features.

    >>> name_of("waves", 1), name_of("waves", 2)
    ('waves, 1 feature', 'waves, 2 features')
    """
    return f"{data}, {features} feature{'s' * (features > 1)}"


TASKS = {name_of(data, n): (data, n) for data in (WAVES, GESTURES) for n in FEATURES}


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Sequences (samples, timesteps, features) and their classes."""
    data, features = TASKS[task]
    if data == WAVES:
        rng = np.random.default_rng(0)
        parts = {name: waves(min(samples or n, n), rng) for name, n in COUNTS.items()}
    else:
        read = convolutional.load(convolutional.GESTURES, samples, folder)
        parts = {name: (derived_features(x[:, :STEPS]), kinds) for name, (x, kinds) in read.items()}
        x, kinds = parts["training"]
        rows = np.resize(np.arange(len(x)), samples or COUNTS["training"])
        parts["training"] = x[rows], kinds[rows]
    return {name: (x[..., :features], classes) for name, (x, classes) in parts.items()}


def waves(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Waves that eight sensors measure, (count, STEPS, 8), and the class of each.

    Classes are a sine of small amplitude, a sine of large amplitude, a sawtooth and a pulse wave.
    The last two have any amplitude. Period and phase are random.
    """
    classes = rng.integers(0, 4, count)
    low, high = np.array([(0.5, 0.9), (1.1, 1.5), (0.5, 1.5), (0.5, 1.5)])[classes].T
    amplitude, period = rng.uniform(low, high), rng.uniform(8, 16, count)
    cycles = rng.random((count, 1)) + np.arange(STEPS) / period[:, None]
    sine, sawtooth = np.sin(2 * np.pi * cycles), 2 * (cycles % 1) - 1
    shapes = np.stack([sine, sine, sawtooth, np.where(cycles % 1 < PULSE, 1.0, -1.0)])
    wave = amplitude[:, None] * shapes[classes, np.arange(count)]
    x = wave[..., None] * GAINS + OFFSETS + NOISES * rng.normal(size=(count, STEPS, len(GAINS)))
    return x.astype("float32"), classes


def derived_features(x: np.ndarray) -> np.ndarray:
    """Eight features of accelerations (samples, timesteps, 3); zeros where all three are zero.

    They are the three axes, their length, and the four differences from the timestep before.
    """
    four = np.concatenate([x, np.linalg.norm(x, axis=-1, keepdims=True)], axis=-1)
    before = np.concatenate([four[:, :1], four[:, :-1]], axis=1)
    there = np.any(x != 0, axis=-1, keepdims=True)
    return np.concatenate([four, (four - before) * there], axis=-1).astype("float32")


def build(arm: Arm, parts: Parts) -> keras.Model:
    """An LSTM whose last state is classified; with a tanh layer before it, where the model says so.

    Layers that warn of few features are what is measured here.
    """
    x, _ = parts["training"]
    layers: list[keras.layers.Layer] = [keras.Input(x.shape[1:], name="x")]
    if TASKS[arm.task][0] == GESTURES:
        layers.append(keras.layers.Masking())
    if arm.model == AFTER_DENSE:
        layers.append(keras.layers.Dense(DENSE, "tanh"))
    layers.append(LAYERS[arm.model](x.shape[1]))
    softmax = keras.layers.Dense(CLASSES[TASKS[arm.task][0]], "softmax", name="class")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*feature", UserWarning)
        return keras.Sequential([*layers, softmax])


def _points(part: str, task: str, plus: str, minus: str) -> Question:
    return Question(
        14,
        f"{part} ({task})",
        "accuracy",
        ((task, plus),),
        ((task, minus),),
        above=1.0,
        scale=100,
        unit="points of accuracy",
    )


STUDY = Study(
    name="few_features",
    title="Few input features",
    paper="No paper. The claim follows from the equation: with one feature, LayerNorm(W x) is "
    "sign(x) LayerNorm(W), but for an x near zero.",
    otherwise=f"Smaller: LSTMs of {UNITS} units learn for {UPDATES} updates from {STEPS} "
    "timesteps. The waves are made up: a sine of small or of large amplitude, a sawtooth or a "
    "pulse wave, of random period and phase. Up to eight sensors measure a wave, each with a gain, "
    f"an offset and noise of its own. The gestures are those of smartwatch_gestures, at "
    f"{STEPS} timesteps at most: the x axis, two axes, three, the length of the acceleration too, "
    "and the differences of the four from the timestep before. They are tested on people whom the "
    "model never met. All models have the same number of updates, and every gesture comes about 19 "
    f"times. The Dense layer has {DENSE} units and tanh.",
    changed="A first trial had a square wave in place of the pulse wave. The signs of such a wave "
    "are those of a sine, and LayerNormLSTM of one feature had one wave of four right.",
    work=Training(
        load,
        build,
        "sparse_categorical_crossentropy",
        metrics.classes,
        "accuracy",
        recalibrated=True,
    ),
    arms=arms(dict.fromkeys(TASKS, BATCH), tuple(LAYERS)),
    questions=(
        *(_points("kernel_norm costs accuracy", task, WITHOUT, LN) for task in TASKS),
        *(
            _points(part, name_of(data, 1), plus, minus)
            for part, plus, minus in (
                ("LayerNormLSTM ends worse than no norm", "LSTM", LN),
                ("the joint form ends better than LayerNormLSTM", JOINT, LN),
                ("LayerNormLSTM ends better after a Dense layer", AFTER_DENSE, LN),
            )
            for data in (WAVES, GESTURES)
        ),
    ),
    full=Size(None, BATCH * UPDATES, 1, patience=1, seeds=3, rates=(5e-3, 2e-2)),
    smoke=Size(64, 64, 1, patience=1, seeds=1, rates=(5e-3,)),
    minutes=0.2,
    scores={
        "accuracy": ("test accuracy, %", 100, 1),
        "nll": ("test nll, nats", 1, 3),
    },
)
