"""LayerNorm of few input features or of amplitudes in an LSTM, and remedies: claims 14 and 16."""

import pathlib
import warnings

import keras
import numpy as np

import keras_norm
from experiments import convolutional
from experiments.harness import metrics
from experiments.harness.study import Arm, Parts, Question, Size, Study, Training, arms

WAVES, GESTURES, AMPLITUDES = "waves", "gestures", "amplitudes"
FEATURES = (1, 2, 3, 4, 8)
WIDE = 16  # features of the amplitudes
UNITS, DENSE = 32, 16
STEPS = 24  # timesteps; longer gestures are truncated
BATCH, UPDATES = 64, 480
COUNTS = {"training": BATCH * UPDATES, "validation": 1024, "test": 2048}  # not gestures
PULSE = 0.3  # share of a period in which a pulse wave is high
NOISE = 0.2  # deviation of the sensors' noise, in the amplitudes
CLASSES = {WAVES: 4, GESTURES: 20, AMPLITUDES: 4}

# Each sensor measures gain * wave + offset + noise.
GAINS = np.array([1.0, 0.7, 1.3, 0.5, 0.9, 1.1, 0.6, 1.4])
OFFSETS = np.array([0.0, 0.3, -0.5, 0.8, -0.2, 0.5, -0.7, 0.1])
NOISES = np.array([0.15, 0.2, 0.1, 0.3, 0.25, 0.15, 0.2, 0.1])

LN = "LN-LSTM"
WITHOUT, JOINT, AFTER_DENSE = f"{LN}, no kernel_norm", f"{LN}, joint form", f"Dense, {LN}"
JOINT_ALL = f"{LN}, joint_all form"
RMS, RMS_ALL = "RMS-LSTM", "RMS-LSTM, joint_all form"
GRU, LN_GRU, JOINT_GRU, ALL_GRU = "GRU", "LN-GRU", "LN-GRU, joint form", "LN-GRU, joint_all form"


def layer_norm() -> keras.layers.Layer:
    """Return the norm of LayerNormLSTM."""
    return keras_norm.LayerNormalization(epsilon=1e-5)


def rms_norm() -> keras.layers.Layer:
    """Return an RMSNorm with the epsilon of `layer_norm`."""
    return keras_norm.RMSNormalization(epsilon=1e-5)


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
    JOINT_ALL: lambda steps: keras_norm.LayerNormLSTM(UNITS, norm_form="joint_all"),
}

# Further models of the amplitudes.
OTHERS = {
    RMS: lambda steps: keras_norm.NormLSTM(UNITS, rms_norm()),
    RMS_ALL: lambda steps: keras_norm.NormLSTM(UNITS, rms_norm(), norm_form="joint_all"),
    GRU: lambda steps: keras_norm.NormGRU(UNITS),
    LN_GRU: lambda steps: keras_norm.LayerNormGRU(UNITS),
    JOINT_GRU: lambda steps: keras_norm.LayerNormGRU(UNITS, norm_form="joint"),
    ALL_GRU: lambda steps: keras_norm.LayerNormGRU(UNITS, norm_form="joint_all"),
}


def name_of(data: str, features: int) -> str:
    """Return the name of a task from its data set and number of features.

    >>> name_of("waves", 1), name_of("waves", 2)
    ('waves, 1 feature', 'waves, 2 features')
    """
    return f"{data}, {features} feature{'s' * (features > 1)}"


TASKS = {name_of(data, n): (data, n) for data in (WAVES, GESTURES) for n in FEATURES}
WIDE_TASK = name_of(AMPLITUDES, WIDE)
TASKS[WIDE_TASK] = (AMPLITUDES, WIDE)
ALL_GESTURES = tuple(task for task, (data, _) in TASKS.items() if data == GESTURES)


def form_of(model: str) -> str:
    """Return the name of a model's joint form.

    >>> form_of("LN-LSTM, joint form")
    'joint form'
    """
    return model.partition(", ")[2]


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load sequences (samples, timesteps, features) and their classes."""
    data, features = TASKS[task]
    if data in MAKERS:
        rng = np.random.default_rng(0)
        parts = {name: MAKERS[data](min(samples or n, n), rng) for name, n in COUNTS.items()}
    else:
        read = convolutional.load(convolutional.GESTURES, samples, folder)
        parts = {name: (derived_features(x[:, :STEPS]), kinds) for name, (x, kinds) in read.items()}
        x, kinds = parts["training"]
        rows = np.resize(np.arange(len(x)), samples or COUNTS["training"])
        parts["training"] = x[rows], kinds[rows]
    return {name: (x[..., :features], classes) for name, (x, classes) in parts.items()}


def waves(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Generate waves measured by eight sensors, (count, STEPS, 8), and their classes.

    The classes are a sine of small amplitude, a sine of large amplitude, a sawtooth and a pulse
    wave. Sawtooth and pulse wave have any amplitude. Period and phase are random.
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


def amplitudes(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Generate sine waves of 16 sensors, (count, STEPS, 16), and their classes.

    The class is the amplitude, which all sensors of a sample share: 0.5 to 0.7, and 1.5 times as
    much in each further class. Each sensor has a random period and phase, and noise.
    """
    classes = rng.integers(0, 4, count)
    amplitude = 1.5**classes * rng.uniform(0.5, 0.7, count)
    period, start = rng.uniform(8, 16, (count, 1, WIDE)), rng.random((count, 1, WIDE))
    sines = np.sin(2 * np.pi * (start + np.arange(STEPS)[:, None] / period))
    x = amplitude[:, None, None] * sines + NOISE * rng.normal(size=sines.shape)
    return x.astype("float32"), classes


MAKERS = {WAVES: waves, AMPLITUDES: amplitudes}


def derived_features(x: np.ndarray) -> np.ndarray:
    """Return eight features of accelerations (samples, timesteps, 3).

    They are the three axes, the length, and the differences of the four from the timestep before.
    A padded timestep, with zeros in all axes, stays zero.
    """
    four = np.concatenate([x, np.linalg.norm(x, axis=-1, keepdims=True)], axis=-1)
    before = np.concatenate([four[:, :1], four[:, :-1]], axis=1)
    unpadded = np.any(x != 0, axis=-1, keepdims=True)
    return np.concatenate([four, (four - before) * unpadded], axis=-1).astype("float32")


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Build a classifier of the LSTM's last state, with a tanh layer first in one of the models.

    Warnings about few features are ignored here, because the study measures their effect.
    """
    x, _ = parts["training"]
    layers: list[keras.layers.Layer] = [keras.Input(x.shape[1:], name="x")]
    if TASKS[arm.task][0] == GESTURES:
        layers.append(keras.layers.Masking())
    if arm.model == AFTER_DENSE:
        layers.append(keras.layers.Dense(DENSE, "tanh"))
    layers.append((LAYERS | OTHERS)[arm.model](x.shape[1]))
    softmax = keras.layers.Dense(CLASSES[TASKS[arm.task][0]], "softmax", name="class")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*feature", UserWarning)
        return keras.Sequential([*layers, softmax])


def _points(statement: str, task: str, plus: str, minus: str) -> Question:
    return Question(
        14,
        f"{statement} ({task})",
        "accuracy",
        ((task, plus),),
        ((task, minus),),
        threshold=1.0,
        scale=100,
        unit="points of accuracy",
    )


def _no_worse(statement: str, tasks: tuple[str, ...], plus: str, minus: str) -> Question:
    """Compare the mean accuracies over tasks; a loss of one point counts."""
    return Question(
        16,
        statement,
        "accuracy",
        tuple((task, plus) for task in tasks),
        tuple((task, minus) for task in tasks),
        threshold=-1.0,
        scale=100 / len(tasks),
        unit="points of accuracy",
    )


STUDY = Study(
    name="few_features",
    title="Few features, amplitudes",
    question="LayerNorm of an LSTM's inputs removes their scale. From how many features on is "
    "this harmless, does it cost accuracy if the class is the amplitude, and what helps?",
    paper="No paper. The claim follows from the equation: with one feature, LayerNorm(W x) is "
    "sign(x) LayerNorm(W), unless x is near zero.",
    differences=f"Smaller: LSTMs of {UNITS} units learn for {UPDATES} updates from {STEPS} "
    "timesteps. The waves are synthetic: a sine of small or large amplitude, a sawtooth or a "
    "pulse wave, with random period and phase. Up to eight sensors measure a wave, each with its "
    "own gain, offset and noise. The gestures come from smartwatch_gestures, with at most "
    f"{STEPS} timesteps. Their features are the x axis, two axes, three axes, the length of the "
    "acceleration, and the differences of these four from the timestep before. The test set has "
    "people that the model never met. The amplitudes are synthetic too: sine waves of "
    f"{WIDE} sensors, with random period and phase and noise. The class is the amplitude, "
    "between 0.5 and 2.4, which all sensors of a sample share. All models have equal numbers of "
    "updates, and each gesture occurs about 19 times. The Dense layer has "
    f"{DENSE} units and tanh.",
    revisions="A first trial had a square wave instead of the pulse wave. Its signs are those of "
    "a sine, so LayerNormLSTM with one feature classified one wave in four correctly. The "
    "joint_all form, the RMS-LSTM, the GRUs and the questions about claim 16 were added later. The "
    "joint form ran without the custom gradient. With it, two of its runs on the amplitudes have "
    "accuracies of 96.7 and 97.9 % instead of 98.2 and 97.2 %, because rounding errors grow.",
    work=Training(
        load,
        build,
        "sparse_categorical_crossentropy",
        metrics.classes,
        "accuracy",
        recalibrated=True,
    ),
    arms=arms(dict.fromkeys(TASKS, BATCH), tuple(LAYERS)) + arms({WIDE_TASK: BATCH}, tuple(OTHERS)),
    questions=(
        *(_points("kernel_norm reduces accuracy", task, WITHOUT, LN) for task in TASKS),
        *(
            _points(statement, task, plus, minus)
            for statement, plus, minus in (
                ("LayerNormLSTM ends worse than no norm", "LSTM", LN),
                ("the joint form ends better than LayerNormLSTM", JOINT, LN),
                ("LayerNormLSTM ends better after a Dense layer", AFTER_DENSE, LN),
            )
            for task in (name_of(WAVES, 1), name_of(GESTURES, 1), WIDE_TASK)
        ),
        *(
            _points(f"the {minus} ends better in the {form_of(plus)}", WIDE_TASK, plus, minus)
            for plus, minus in (
                (JOINT_ALL, LN),
                (RMS_ALL, RMS),
                (JOINT_GRU, LN_GRU),
                (ALL_GRU, LN_GRU),
            )
        ),
        *(
            _no_worse(
                f"the {form_of(plus)} ends no worse than the {minus} ({WIDE_TASK})",
                (WIDE_TASK,),
                plus,
                minus,
            )
            for plus, minus in ((JOINT_ALL, "LSTM"), (ALL_GRU, GRU), (JOINT_ALL, JOINT))
        ),
        *(
            _no_worse(
                f"the {LN} ends no worse in the {form_of(plus)} (gestures, mean of all)",
                ALL_GESTURES,
                plus,
                LN,
            )
            for plus in (JOINT, JOINT_ALL)
        ),
    ),
    full=Size(None, BATCH * UPDATES, 1, patience=1, seeds=3, rates=(5e-3, 2e-2)),
    smoke=Size(64, 64, 1, patience=1, seeds=1, rates=(5e-3,)),
    scores={
        "accuracy": ("test accuracy, %", 100, 1),
        "nll": ("test nll, nats", 1, 3),
    },
)
