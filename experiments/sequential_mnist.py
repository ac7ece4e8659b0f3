"""MNIST pixel by pixel, in order and permuted, with an LSTM, an LN-LSTM and a BN-LSTM.

The task of Cooijmans et al. 2016 (arXiv 1603.09025), section 5.1: a digit's pixels come one at a
time, and the class is read from the last state; permuted, the pixels of all digits come in one and
the same random order. Their code drew that order with replacement, so that some pixels came twice
and others never; here it is a permutation. Initial matrices, noise and optimizer are those of
their text. Their code has one orthogonal block for the three gates, learns the first states, adds
the noise at inference too, and none to the plain LSTM. `small` reads 35,000 images of 7 x 7 pixels,
each the mean of 4 x 4; `paper` reads all 784 pixels.

Run with `python -m experiments.sequential_mnist`; --help tells what else there is.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

import keras_norm
from experiments.harness import command, data, exporting, plots, tables
from experiments.harness.results import Entry, Results, Run
from experiments.harness.training import compiled, fit, load_best, slug, started

IN_ORDER, PERMUTED = "in order", "permuted"
SAMPLES = 256  # with which the exported models are checked
NOISE = 0.1


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a preset stands for.

    Attributes:
        pool: side of the square of pixels whose mean is one step.
        training: how many digits there are to learn from.
        validation: how many there are to validate with.
        units: size of the states.
        epochs: passes over the training digits.
        seeds: how often all is repeated.
        exported: models whose best run on each task is exported and checked.
        batch: how many digits an update takes.
        learning_rate: of RMSProp.
    """

    pool: int
    training: int
    validation: int
    units: int
    epochs: int
    seeds: int
    exported: tuple[str, ...] = ("LSTM", "LN-LSTM", "BN-LSTM")
    batch: int = 64
    learning_rate: float = 1e-3


PRESETS = {
    "smoke": Settings(7, training=512, validation=512, units=16, epochs=1, seeds=1, exported=()),
    "small": Settings(4, training=35000, validation=5000, units=100, epochs=3, seeds=3),
    # 100,000 updates, as the paper's figures show.
    "paper": Settings(
        1, training=50000, validation=10000, units=100, epochs=200, seeds=1, batch=100
    ),
}

# Arrays (digits, steps, 1) of pixels in [0, 1], and the classes (digits,).
Digits = tuple[np.ndarray, np.ndarray]

# By task, for "training", "validation" and "test".
Tasks = dict[str, dict[str, Digits]]

# Without a norm, NormLSTM is Keras' LSTM in a form that TFLite takes.
LAYERS: dict[str, Callable[..., keras.layers.Layer]] = {
    "LSTM": lambda units, steps, **options: keras_norm.NormLSTM(units, **options),
    "LN-LSTM": lambda units, steps, **options: keras_norm.LayerNormLSTM(units, **options),
    "BN-LSTM": lambda units, steps, **options: keras_norm.BatchNormLSTM(units, steps, **options),
}

# Cooijmans et al. 2016: test accuracy in %, of all 784 pixels.
PAPER = {
    (IN_ORDER, "LSTM"): "98.9",
    (IN_ORDER, "BN-LSTM"): "99.0",
    (PERMUTED, "LSTM"): "90.2",
    (PERMUTED, "BN-LSTM"): "95.4",
}

COLUMNS = {
    "test_accuracy": tables.Column("test accuracy, %", 100, 2),
    "seconds": tables.Column("time, s", interval=False),
}


@keras.saving.register_keras_serializable("keras_norm_examples")
class IdentityCandidate(keras.initializers.Initializer):
    """The identity for an LSTM's candidate, orthogonal matrices for its gates (section 5)."""

    def __call__(self, shape: tuple[int, int], dtype: Any = None) -> Any:
        """A recurrent kernel (units, 4 units) with the blocks i, f, c, o."""
        units, _ = shape
        blocks = [keras.initializers.Orthogonal() for _ in range(4)]
        blocks[2] = keras.initializers.Identity()
        return ops.concatenate([block((units, units), dtype) for block in blocks], axis=1)


def load(asked: command.Command[Settings]) -> dict[str, Digits]:
    """The digits to train, validate and test with."""
    validation = asked.settings.validation
    parts = {
        "training": f"train[{validation}:{validation + asked.settings.training}]",
        "validation": f"train[:{validation}]",
        "test": "test",
    }
    return {
        part: _pooled(data.from_tfds("mnist", split, asked.data), asked.settings.pool)
        for part, split in parts.items()
    }


def _pooled(digits: dict[str, np.ndarray], pool: int) -> Digits:
    side = 28 // pool
    pixels = digits["image"].reshape(-1, side, pool, side, pool).mean(axis=(2, 4)) / 255
    return pixels.reshape(-1, side * side, 1).astype("float32"), digits["label"]


def permuted(parts: dict[str, Digits]) -> dict[str, Digits]:
    """The digits, their pixels in one random order, which is the same for every seed."""
    order = np.random.default_rng(0).permutation(parts["test"][0].shape[1])
    return {part: (pixels[:, order], classes) for part, (pixels, classes) in parts.items()}


def build(settings: Settings, steps: int, task: str, model: str) -> keras.Model:
    """A compiled classifier of sequences of pixels.

    In order, the first pixels of every digit are black: all sequences then have the same states,
    and a BatchNorm no variance to divide by. So h starts from noise in training (section 5.1).

    Args:
        settings: its sizes.
        steps: pixels of a digit.
        task: IN_ORDER or PERMUTED.
        model: one of LAYERS.
    """
    units = settings.units
    inputs = keras.Input((None, 1), name="pixels")
    h = c = ops.repeat(ops.zeros_like(inputs[:, 0]), units, axis=1)
    if task == IN_ORDER:
        h = keras.layers.GaussianNoise(NOISE)(h)
    recurrent = LAYERS[model](
        units,
        steps,
        kernel_initializer="orthogonal",
        recurrent_initializer=IdentityCandidate(),
    )
    softmax = keras.layers.Dense(10, "softmax", kernel_initializer="orthogonal", name="digit")
    outputs = softmax(recurrent(inputs, initial_state=[h, c]))
    classifier = keras.Model(inputs, outputs, name=slug(f"{task}, {model}"))
    optimizer = keras.optimizers.RMSprop(settings.learning_rate, global_clipnorm=1.0)
    return compiled(classifier, optimizer)


def train(asked: command.Command[Settings], run: Run, parts: dict[str, Digits]) -> Entry:
    """Train one model; its curves, and its accuracy on the test digits after the best epoch."""
    settings = asked.settings
    steps = parts["test"][0].shape[1]
    model = started(build, settings, steps, run.task, run.model, seed=run.seed)
    curves = fit(
        model,
        *parts["training"],
        run=run,
        out=asked.out,
        monitor="val_accuracy",
        validation_data=parts["validation"],
        batch_size=settings.batch,
        epochs=settings.epochs,
    )
    _, accuracy = model.evaluate(*parts["test"], batch_size=500, verbose=0)
    return {"test_accuracy": accuracy, "curves": curves}


def check(asked: command.Command[Settings], tasks: Tasks, run: Run) -> Entry:
    """Export the model of a run, and check the files with test digits."""
    pixels, classes = (array[:SAMPLES] for array in tasks[run.task]["test"])
    model = build(asked.settings, pixels.shape[1], run.task, run.model)
    load_best(model, asked.out, run)
    return exporting.checked(model, pixels, asked.out / model.name, classes)


def main(argv: Sequence[str] | None = None) -> int:
    """Train every model on both tasks; 0 when the exports of the best ones pass the check."""
    asked = command.parse("sequential_mnist", __doc__, PRESETS, argv)
    results = Results(asked)
    digits = load(asked)
    tasks = {IN_ORDER: digits, PERMUTED: permuted(digits)}
    runs = [
        results.once("runs", run, functools.partial(train, asked, run, tasks[run.task]))
        for seed in range(asked.seed, asked.seed + asked.settings.seeds)
        for run in (Run(task, model, seed) for task in tasks for model in LAYERS)
    ]
    plots.curves(runs, "val_accuracy", asked.out / "curves.png", "validation accuracy, %", 100)
    checks = results.once_of_best(
        runs, asked.settings.exported, functools.partial(check, asked, tasks), "val_accuracy"
    )
    tables.show("MNIST, pixel by pixel", tables.header(COLUMNS), tables.rows(runs, COLUMNS))
    print(f"Results, models, TensorBoard's logs, exports and reports are in {asked.out}.")
    return 0 if all(entry["passed"] for entry in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
