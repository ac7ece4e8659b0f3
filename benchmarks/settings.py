"""What is measured: suites, shapes, the names of the variants, and the figures to reach."""

import dataclasses
from typing import NamedTuple


class Shape(NamedTuple):
    """Sizes of a recurrent layer's inputs, (batch, time, inputs), and of its state."""

    batch: int
    time: int
    inputs: int
    units: int


TRAINING, INFERENCE = "training", "inference"

LN_LSTM, LN_GRU, BN_LSTM = "LN-LSTM", "LN-GRU", "BN-LSTM"
RMS_LSTM, NO_NORM = "RMS-LSTM", "NormLSTM, no norm"
OURS = (LN_LSTM, LN_GRU, BN_LSTM, RMS_LSTM, NO_NORM)

KERAS_LSTM, KERAS_JIT, UNROLLED = "keras LSTM", "keras LSTM, jit", "keras LSTM, unrolled"
KERAS_LOOP = "keras LSTM, static batch"
RNN_CELL = "RNN(cell with LN)"
OWN_CELL = "RNN(LayerNormLSTMCell)"

# The state as (batch, units) or (units, batch); the batch in one XLA program or two at a time.
FLOORS = {
    f"GEMMs, {layout} x{parts}": (layout, parts)
    for layout in ("rows", "columns")
    for parts in (1, 2)
}

# Each reference is the fastest of these.
LSTM, CELL, FLOOR = "LSTM", "RNN(cell)", "GEMMs"
REFERENCES = {LSTM: (KERAS_LSTM, KERAS_JIT), CELL: (RNN_CELL,), FLOOR: tuple(FLOORS)}

# Highest geometric mean over the training shapes of LN-LSTM's time, as a share of each reference's.
TARGETS = {
    TRAINING: {LSTM: 0.75, CELL: 0.40, FLOOR: 1.5},
    INFERENCE: {LSTM: 0.75, CELL: 0.40, FLOOR: 1.3},
}
TARGET_ANY_SHAPE = 1.0  # of the LSTM's training time
TARGET_SIBLINGS = 1.3  # BN-LSTM and LN-GRU, of LN-LSTM's time
TARGET_EXPONENT = 1.1  # p in time ~ T^p: linear, with room for noise
TARGET_LAYERS = 1.0  # normalization layers, of the time of Keras' own

# Normalization layer -> the one of Keras' that it is measured against.
PEERS = {
    "LayerNormalization": "LayerNormalization",
    "RMSNormalization": "RMSNormalization",
    "BatchNormalization": "BatchNormalization",
    "TimestepBatchNormalization": "BatchNormalization",
}

SUITES = ("recurrent", "growth", "fit", "layers", "tflite", "memory")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The shapes of one run, and how often each variant is timed."""

    rounds: int
    suites: tuple[str, ...]
    shapes: tuple[Shape, ...]
    inference_only: tuple[Shape, ...]
    variants: tuple[str, ...]
    longest_unrolled: int
    growth: tuple[Shape, ...]
    fit: tuple[Shape, ...]
    fit_samples: int
    layers: tuple[tuple[int, ...], ...]
    tflite: tuple[Shape, ...]
    memory: Shape


FULL = Settings(
    rounds=15,
    suites=SUITES,
    shapes=(
        Shape(32, 64, 64, 128),
        Shape(64, 128, 128, 256),
        Shape(128, 100, 28, 100),
        Shape(16, 256, 256, 512),
    ),
    inference_only=(Shape(1, 128, 128, 256),),
    variants=(*OURS, KERAS_LSTM, KERAS_JIT, UNROLLED, RNN_CELL, *FLOORS),
    longest_unrolled=128,
    growth=tuple(Shape(32, time, 128, 128) for time in (32, 128, 512, 1024)),
    fit=(Shape(32, 64, 64, 128), Shape(64, 64, 64, 128)),
    fit_samples=1000,
    layers=((64, 128, 256), (32, 512, 768), (8192, 512)),
    tflite=(Shape(1, 128, 128, 256), Shape(1, 64, 64, 128)),
    memory=Shape(16, 1024, 256, 512),
)

QUICK = dataclasses.replace(
    FULL,
    suites=("recurrent", "layers"),
    shapes=(FULL.shapes[0], FULL.shapes[2]),
    inference_only=(),
    variants=(LN_LSTM, LN_GRU, BN_LSTM, KERAS_LSTM, KERAS_JIT, RNN_CELL, *FLOORS),
    growth=FULL.growth[:2],
    fit=FULL.fit[:1],
    fit_samples=200,
    layers=FULL.layers[:1],
    tflite=FULL.tflite[1:],
    memory=Shape(16, 128, 64, 128),
)
