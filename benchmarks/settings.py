"""Settings of the benchmark: suites, shapes, names of the variants, and goals."""

import dataclasses
from typing import NamedTuple


class Shape(NamedTuple):
    """Sizes of a recurrent layer: inputs (batch, time, inputs) and units."""

    batch: int
    time: int
    inputs: int
    units: int


class Task(NamedTuple):
    """Data and model of a fit: sequences of `inputs` features, or sentences.

    Attributes:
        samples: number of sequences, not a multiple of the batch size: the last batch is smaller.
        time: length of the sequences; for sentences, the longest length.
        inputs: features per timestep; for sentences, the size of the embedding.
        units: units of the recurrent layer.
        epochs: number of epochs, for which `keras.layers.LSTM` takes 4 to 9 s on two cores.
        shortest: length of the shortest sentence; None if the data are not sentences.
        batch: batch size.
    """

    samples: int
    time: int
    inputs: int
    units: int
    epochs: int
    shortest: int | None = None
    batch: int = 32

    @property
    def name(self) -> str:
        """Short name of the data, such as "2,000 x (200, 16)", and a batch size other than 32."""
        data = f"{self.samples:,} x ({self.time}, {self.inputs})"
        if self.shortest is not None:
            data = f"{self.samples:,} sentences"
        return data if self.batch == 32 else f"{data}, batch {self.batch}"


TRAINING, INFERENCE = "training", "inference"
FIRST_STEP, FIRST_PREDICT = "training step", "predict"
BIDIRECTIONAL, BIDIRECTIONAL_CPU = "Bidirectional x 2", "Bidirectional, CPU"
PREDICT, SERVED = "predict", "SavedModel"
TRIAL, SAME_SIZE, KEPT = "time per trial", "time per trial, same size", "memory kept per trial"

LN_LSTM, LN_GRU, BN_LSTM = "LN-LSTM", "LN-GRU", "BN-LSTM"
RMS_LSTM, NO_NORM = "RMS-LSTM", "norm=None"
JOINT_LSTM, JOINT_ALL_LSTM = "LN-LSTM, joint form", "LN-LSTM, joint_all form"
JOINT_ALL_GRU = "LN-GRU, joint_all form"
PACKED_LSTM, PROJECTED_LSTM = "LN-LSTM, packed rows", "LN-LSTM, projection"
ZONEOUT_LSTM, PEEPHOLE_LSTM = "LN-LSTM, zoneout", "LN-LSTM, peepholes"
DROPPED_LSTM, CLIPPED_LSTM = "LN-LSTM, candidate dropout", "LN-LSTM, clipped c"
OURS = (LN_LSTM, LN_GRU, BN_LSTM, RMS_LSTM, NO_NORM)
KERAS_LSTM, KERAS_JIT, KERAS_GRU = "keras LSTM", "keras LSTM, jit", "keras GRU"
KERAS_STATIC, KERAS_NO_CUDNN = "keras LSTM, static", "keras LSTM, no cuDNN"
RNN_CELL = "RNN(cell)"
OWN_CELL = "RNN(LayerNormLSTMCell)"
UNCOMPILED = "LN-LSTM, compiled=False"

# State as (batch, units) or (units, batch); batch in one XLA program or in two parallel ones.
PRODUCT_VARIANTS = {
    f"GEMMs, {layout} x{parts}": (layout, parts)
    for layout in ("rows", "columns")
    for parts in (1, 2)
}

# The time of a reference is that of its fastest variant.
LSTM, GRU, CELL, PRODUCTS = "LSTM", "GRU", "RNN(cell)", "GEMMs"
REFERENCES = {
    LSTM: (KERAS_LSTM, KERAS_JIT),
    GRU: (KERAS_GRU,),
    CELL: (RNN_CELL,),
    PRODUCTS: tuple(PRODUCT_VARIANTS),
    LN_LSTM: (LN_LSTM,),
    LN_GRU: (LN_GRU,),
}

# Layers in the tables, each with the Keras layer that it is compared with.
COMPARED = {LN_LSTM: LSTM, LN_GRU: GRU, BN_LSTM: LSTM, NO_NORM: LSTM, RNN_CELL: LSTM}
CHOICES = (*COMPARED, KERAS_LSTM, KERAS_GRU)

# Layers with an option, each with the layer without the option.
OPTIONS = {
    JOINT_LSTM: LN_LSTM,
    JOINT_ALL_LSTM: LN_LSTM,
    JOINT_ALL_GRU: LN_GRU,
    PACKED_LSTM: LN_LSTM,
    PROJECTED_LSTM: LN_LSTM,
    PEEPHOLE_LSTM: LN_LSTM,
    CLIPPED_LSTM: LN_LSTM,
    ZONEOUT_LSTM: LN_LSTM,
    DROPPED_LSTM: LN_LSTM,
}

# Normalization layers, each with the Keras layer that it is compared with.
KERAS_LAYERS = {
    "LayerNormalization": "LayerNormalization",
    "RMSNormalization": "RMSNormalization",
    "BatchNormalization": "BatchNormalization",
    "TimestepBatchNormalization": "BatchNormalization",
}


class Target(NamedTuple):
    """Upper bounds on the time of a layer divided by that of a reference.

    Attributes:
        use: name of the use case.
        suite: suite that measures it.
        mode: mode of the suite; None for all modes.
        name: name of the layer.
        reference: name of the reference.
        mean: bound on the geometric mean over the shapes or tasks of the suite.
        worst: bound on the largest ratio; None for no bound.
    """

    use: str
    suite: str
    mode: str | None
    name: str
    reference: str
    mean: float
    worst: float | None = None


TARGETS = (
    Target("warm training step", "recurrent", TRAINING, LN_LSTM, LSTM, 0.60, 0.95),
    Target("warm training step", "recurrent", TRAINING, LN_LSTM, PRODUCTS, 1.80),
    Target("cold fit", "cold", None, LN_LSTM, LSTM, 0.95, 1.15),
    Target("cold fit", "cold", None, LN_GRU, GRU, 0.95, 1.15),
    Target("cold fit", "cold", None, BN_LSTM, LSTM, 1.50),
    Target("warm predict", "served", PREDICT, LN_LSTM, LSTM, 1.00, 1.20),
    Target("warm predict", "served", PREDICT, NO_NORM, LSTM, 0.85),
    Target("SavedModel", "served", SERVED, LN_LSTM, LSTM, 1.00, 1.20),
    Target("SavedModel", "served", SERVED, NO_NORM, LSTM, 0.85),
    Target("first Bidirectional step", "first", BIDIRECTIONAL, LN_LSTM, LSTM, 2.00),
    Target("first Bidirectional, CPU time", "first", BIDIRECTIONAL_CPU, LN_LSTM, LSTM, 2.00),
    Target("time per trial", "search", TRIAL, LN_LSTM, LSTM, 1.50),
    Target("time per trial, same size", "search", SAME_SIZE, LN_LSTM, LSTM, 1.50),
    Target("memory kept per trial", "search", KEPT, LN_LSTM, LSTM, 1.50),
    Target("eager training step", "eager", TRAINING, LN_LSTM, LSTM, 1.50),
    Target("eager call", "eager", INFERENCE, LN_LSTM, LSTM, 1.50),
    Target("training step", "options", TRAINING, JOINT_LSTM, LN_LSTM, 1.10, 1.10),
    Target("training step", "options", TRAINING, JOINT_ALL_LSTM, LN_LSTM, 1.10, 1.10),
    Target("training step", "options", TRAINING, JOINT_ALL_GRU, LN_GRU, 1.10, 1.10),
    Target("inference step", "options", INFERENCE, JOINT_LSTM, LN_LSTM, 1.00),
    Target("inference step", "options", INFERENCE, JOINT_ALL_LSTM, LN_LSTM, 1.00),
    Target("inference step", "options", INFERENCE, JOINT_ALL_GRU, LN_GRU, 1.00),
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
    "search",
    "options",
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Shapes and numbers of rounds of one run.

    Attributes:
        rounds: rounds of warm calls, in one process.
        cold_rounds: rounds of first calls and cold starts, each in a fresh process.
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
    trials: int


TASKS = (
    Task(10_000, 28, 28, units=128, epochs=3),
    Task(3_990, 50, 64, units=64, epochs=4, shortest=5),
    Task(2_000, 200, 16, units=64, epochs=4),
    Task(3_000, 40, 8, units=32, epochs=10),
    Task(10_000, 28, 28, units=128, epochs=4, batch=128),
    Task(3_990, 50, 64, units=64, epochs=8, shortest=5, batch=128),
    Task(2_000, 200, 16, units=64, epochs=8, batch=128),
    Task(3_000, 40, 8, units=32, epochs=20, batch=128),
)

FULL = Settings(
    rounds=15,
    cold_rounds=3,
    suites=SUITES,
    choices=CHOICES,
    first=(Shape(32, 28, 28, 128), Shape(32, 200, 16, 64)),
    bidirectional=(Shape(32, 28, 28, 128),),
    tasks=TASKS,
    shapes=(
        Shape(32, 64, 64, 128),
        Shape(64, 128, 128, 256),
        Shape(128, 100, 28, 100),
        Shape(16, 256, 256, 512),
    ),
    inference_only=(Shape(1, 128, 128, 256),),
    variants=(*OURS, KERAS_LSTM, KERAS_JIT, KERAS_GRU, RNN_CELL, *PRODUCT_VARIANTS),
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
    trials=50,
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
    trials=5,
)
