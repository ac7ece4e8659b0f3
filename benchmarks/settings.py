"""What is measured: suites, shapes, the names of the variants, and the figures to reach."""

import dataclasses
from typing import NamedTuple


class Shape(NamedTuple):
    """Sizes of a recurrent layer's inputs, (batch, time, inputs), and of its state."""

    batch: int
    time: int
    inputs: int
    units: int


class Task(NamedTuple):
    """Data to fit, and the model: sequences of `inputs` features, or sentences.

    Attributes:
        samples: how many sequences; no multiple of the batch, so that the last one is smaller.
        time: their length; of sentences, the longest.
        inputs: features of a timestep; of sentences, the size of a word's embedding.
        units: of the recurrent layer.
        epochs: such that `keras.layers.LSTM` takes 4 to 9 s on two cores.
        shortest: words of the shortest sentence; None where the data are no sentences.
    """

    samples: int
    time: int
    inputs: int
    units: int
    epochs: int
    shortest: int | None = None

    @property
    def name(self) -> str:
        """The data in a few words."""
        if self.shortest is not None:
            return f"{self.samples:,} sentences"
        return f"{self.samples:,} x ({self.time}, {self.inputs})"


BATCH = 32  # of the tasks: Keras' default

TRAINING, INFERENCE = "training", "inference"
FIRST_STEP, FIRST_PREDICT = "training step", "predict"
BIDIRECTIONAL, BIDIRECTIONAL_CPU = "Bidirectional x 2", "Bidirectional, CPU"
PREDICT, SERVED = "predict", "SavedModel"

LN_LSTM, LN_GRU, BN_LSTM = "LN-LSTM", "LN-GRU", "BN-LSTM"
RMS_LSTM, NO_NORM = "RMS-LSTM", "norm=None"
OURS = (LN_LSTM, LN_GRU, BN_LSTM, RMS_LSTM, NO_NORM)
KERAS_LSTM, KERAS_JIT, KERAS_GRU = "keras LSTM", "keras LSTM, jit", "keras GRU"
KERAS_STATIC = "keras LSTM, static"
RNN_CELL = "RNN(cell)"
OWN_CELL = "RNN(LayerNormLSTMCell)"

# The state as (batch, units) or (units, batch); the batch in one XLA program or two at a time.
FLOORS = {
    f"GEMMs, {layout} x{parts}": (layout, parts)
    for layout in ("rows", "columns")
    for parts in (1, 2)
}

# Each reference is the fastest of these.
LSTM, GRU, CELL, FLOOR = "LSTM", "GRU", "RNN(cell)", "GEMMs"
REFERENCES = {
    LSTM: (KERAS_LSTM, KERAS_JIT),
    GRU: (KERAS_GRU,),
    CELL: (RNN_CELL,),
    FLOOR: tuple(FLOORS),
}

# What a user has the choice of, and Keras' layer that each is held against.
BESIDE = {LN_LSTM: LSTM, LN_GRU: GRU, BN_LSTM: LSTM, NO_NORM: LSTM, RNN_CELL: LSTM}
CHOICES = (*BESIDE, KERAS_LSTM, KERAS_GRU)

# Normalization layer -> the one of Keras' that it is measured against.
PEERS = {
    "LayerNormalization": "LayerNormalization",
    "RMSNormalization": "RMSNormalization",
    "BatchNormalization": "BatchNormalization",
    "TimestepBatchNormalization": "BatchNormalization",
}


class Target(NamedTuple):
    """Upper bounds of a layer's time over a reference's, in a suite.

    Attributes:
        what: a user does.
        suite: that measures it.
        mode: of the suite; None where all of them count.
        name: of the layer.
        reference: that it is held against.
        mean: bound of the geometric mean over what the suite measured.
        worst: bound of the largest.
    """

    what: str
    suite: str
    mode: str | None
    name: str
    reference: str
    mean: float
    worst: float | None = None


TARGETS = (
    Target("warm training step", "recurrent", TRAINING, LN_LSTM, LSTM, 0.60, 0.95),
    Target("warm training step", "recurrent", TRAINING, LN_LSTM, FLOOR, 1.80),
    Target("cold fit", "cold", None, LN_LSTM, LSTM, 0.95, 1.15),
    Target("cold fit", "cold", None, LN_GRU, GRU, 0.95, 1.15),
    Target("cold fit", "cold", None, BN_LSTM, LSTM, 1.50),
    Target("warm predict", "served", PREDICT, LN_LSTM, LSTM, 1.00, 1.20),
    Target("warm predict", "served", PREDICT, NO_NORM, LSTM, 0.85),
    Target("SavedModel", "served", SERVED, LN_LSTM, LSTM, 1.00, 1.20),
    Target("SavedModel", "served", SERVED, NO_NORM, LSTM, 0.85),
    Target("first, Bidirectional x 2", "first", BIDIRECTIONAL, LN_LSTM, LSTM, 2.00),
    Target("the same, CPU seconds", "first", BIDIRECTIONAL_CPU, LN_LSTM, LSTM, 2.00),
    Target("eager training step", "eager", TRAINING, LN_LSTM, LSTM, 1.50),
    Target("eager call", "eager", INFERENCE, LN_LSTM, LSTM, 1.50),
)

SUITES = (
    "first",
    "cold",
    "predict",
    "recurrent",
    "served",
    "eager",
    "growth",
    "layers",
    "tflite",
    "memory",
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The shapes of one run, and how often each variant is timed.

    Attributes:
        rounds: of what is measured warm, in one process.
        cold_rounds: of what is measured in a fresh process each time.
    """

    rounds: int
    cold_rounds: int
    suites: tuple[str, ...]
    choices: tuple[str, ...]
    first: tuple[Shape, ...]
    bidirectional: tuple[Shape, ...]
    tasks: tuple[Task, ...]
    shapes: tuple[Shape, ...]
    inference_only: tuple[Shape, ...]
    variants: tuple[str, ...]
    served: tuple[Shape, ...]
    eager: tuple[Shape, ...]
    growth: tuple[Shape, ...]
    layers: tuple[tuple[int, ...], ...]
    tflite: tuple[Shape, ...]
    memory: Shape


FULL = Settings(
    rounds=15,
    cold_rounds=3,
    suites=SUITES,
    choices=CHOICES,
    first=(Shape(32, 28, 28, 128), Shape(32, 200, 16, 64)),
    bidirectional=(Shape(32, 28, 28, 128),),
    tasks=(
        Task(10_000, 28, 28, units=128, epochs=3),
        Task(3_990, 50, 64, units=64, epochs=4, shortest=5),
        Task(2_000, 200, 16, units=64, epochs=4),
        Task(3_000, 40, 8, units=32, epochs=10),
    ),
    shapes=(
        Shape(32, 64, 64, 128),
        Shape(64, 128, 128, 256),
        Shape(128, 100, 28, 100),
        Shape(16, 256, 256, 512),
    ),
    inference_only=(Shape(1, 128, 128, 256),),
    variants=(*OURS, KERAS_LSTM, KERAS_JIT, KERAS_GRU, RNN_CELL, *FLOORS),
    served=(
        Shape(1, 90, 40, 160),
        Shape(24, 70, 40, 192),
        Shape(48, 110, 100, 320),
        Shape(1, 300, 64, 96),
    ),
    eager=(Shape(16, 20, 8, 16),),
    growth=tuple(Shape(32, time, 128, 128) for time in (32, 128, 512, 1024)),
    layers=((64, 128, 256), (8192, 512)),
    tflite=(Shape(1, 128, 128, 256), Shape(1, 64, 64, 128)),
    memory=Shape(16, 1024, 256, 512),
)

QUICK = dataclasses.replace(
    FULL,
    cold_rounds=1,
    suites=("first", "cold", "recurrent", "served", "eager"),
    first=FULL.first[:1],
    bidirectional=(),
    tasks=(Task(1_000, 40, 8, units=32, epochs=4),),
    shapes=(FULL.shapes[0],),
    inference_only=(),
    served=FULL.served[:1],
    growth=FULL.growth[:2],
    layers=FULL.layers[:1],
    tflite=FULL.tflite[1:],
    memory=Shape(16, 128, 64, 128),
)
