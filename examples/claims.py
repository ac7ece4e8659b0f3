"""What normalization leaves unchanged, and what it does to a long recurrence, in figures.

Three measurements, on random data in float64:

- the invariances of Ba et al. 2016 (arXiv 1607.06450), Table 1, for BatchNorm, LayerNorm and
  RMSNorm: how far norm(x W) moves when the weights or the data are scaled or shifted;
- how far training is from inference, for LayerNorm and BatchNorm inside an LSTM;
- a simple recurrence h_t = relu(...) over many steps, with and without LayerNorm, for recurrent
  matrices of several gains: the size of the summed inputs x_t W + h_(t-1) U, and of the gradient
  of the last state with respect to every state before it.

Nothing is trained here. Run with `python -m examples.claims`; --help tells what else there is.
"""

import dataclasses
import functools
import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence

import keras
import matplotlib.figure
import numpy as np
import tensorflow as tf

import keras_norm
from examples.common import command, tables
from examples.common.plots import COLOURS
from examples.common.results import Entry, Results, Run

# Rounding in float64 moves outputs of size 1 by less than this; what changes them, by more.
INVARIANT = 1e-6
EPSILON = 1e-12  # so small that it does not count
SEEN = 8


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a preset stands for.

    Attributes:
        steps: of the recurrence.
        units: of the recurrence.
        gains: of its orthogonal recurrent matrices.
        batch: how many sequences, or cases.
        features: of each case.
    """

    steps: int
    units: int
    gains: tuple[float, ...] = (0.5, 1.0, 2.0)
    batch: int = 16
    features: int = 32


PRESETS = {
    "smoke": Settings(steps=8, units=16),
    "small": Settings(steps=200, units=64),
    "paper": Settings(steps=200, units=400),
}

NORMS: dict[str, Callable[[], keras.layers.Layer]] = {
    "BatchNorm": lambda: keras_norm.BatchNormalization(epsilon=EPSILON, dtype="float64"),
    "LayerNorm": lambda: keras_norm.LayerNormalization(epsilon=EPSILON, dtype="float64"),
    "RMSNorm": lambda: keras_norm.RMSNormalization(epsilon=EPSILON, dtype="float64"),
}

# What is done to the data x (cases, features) and the weights W (features, units).
Change = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
CHANGES: dict[str, Change] = {
    "weight matrix re-scaled": lambda x, W: (x, 3 * W),
    # Every unit's weights move by the same vector.
    "weight matrix re-centred": lambda x, W: (x, W + W[:, :1]),
    "one unit's weights re-scaled": lambda x, W: (x, W * _threefold_first(W.shape[1])),
    "dataset re-scaled": lambda x, W: (3 * x, W),
    "dataset re-centred": lambda x, W: (x + x[:1], W),
    "one case re-scaled": lambda x, W: (x * _threefold_first(len(x))[:, None], W),
}


def _threefold_first(size: int) -> np.ndarray:
    return np.where(np.arange(size) == 0, 3.0, 1.0)


INVARIANCE_HEADER = ("unchanged by", *NORMS)

LSTMS: dict[str, Callable[[Settings], keras.layers.Layer]] = {
    "LN-LSTM": lambda s: keras_norm.LayerNormLSTM(s.units, dtype="float64"),
    "BN-LSTM": lambda s: keras_norm.BatchNormLSTM(s.units, s.steps, momentum=None, dtype="float64"),
}

GAP_HEADER = ("model", "largest state", "largest difference")

RECURRENCES: dict[str, Callable[[], keras.layers.Layer | None]] = {
    "SimpleRNN": lambda: None,
    "LN-SimpleRNN": lambda: keras_norm.LayerNormalization(epsilon=1e-5),
}


def invariance(settings: Settings, run: Run) -> Entry:
    """How far the outputs of a norm move under every change."""
    rng = np.random.default_rng(run.seed)
    x = rng.normal(size=(settings.batch, settings.features))
    W = rng.normal(size=(settings.features, settings.units))

    def normalized(x: np.ndarray, W: np.ndarray) -> np.ndarray:
        return np.array(NORMS[run.model]()(x @ W, training=True))

    y = normalized(x, W)
    moved = {name: np.abs(normalized(*change(x, W)) - y).max() for name, change in CHANGES.items()}
    return {"moved": {name: float(distance) for name, distance in moved.items()}}


def mode_gap(settings: Settings, run: Run) -> Entry:
    """How far an LSTM's states in training mode are from those in inference mode.

    The moving statistics are the mean of those of SEEN other batches.
    """
    keras.utils.set_random_seed(run.seed)
    rng = np.random.default_rng(run.seed)
    shape = (settings.batch, settings.steps, settings.features)
    *seen, x = rng.normal(size=(SEEN + 1, *shape))
    layer = tf.function(LSTMS[run.model](settings))
    for batch in seen:
        layer(batch, training=True)
    inference, training = (np.array(layer(x, training=mode)) for mode in (False, True))
    return {
        "largest": float(np.abs(inference).max()),
        "gap": float(np.abs(training - inference).max()),
    }


def recurrence(settings: Settings, gain: float, run: Run) -> Entry:
    """Root mean square of the summed inputs of every step, and norm of the gradient of every state.

    The gradient is that of a random projection of the last state.
    """
    keras.utils.set_random_seed(run.seed)
    rng = np.random.default_rng(run.seed)
    cell = keras_norm.NormSimpleRNNCell(
        settings.units,
        activation="relu",
        norm=RECURRENCES[run.model](),
        recurrent_initializer=keras.initializers.Orthogonal(gain),
        dtype="float64",
    )
    x = tf.constant(rng.normal(size=(settings.steps, settings.batch, settings.features)))
    projection = tf.constant(rng.normal(size=(settings.batch, settings.units)))
    cell.build(x.shape[1:])
    W, U = (tf.convert_to_tensor(w) for w in (cell.kernel, cell.recurrent_kernel))
    h = tf.zeros((settings.batch, settings.units), "float64")
    states, summed = [], []
    with tf.GradientTape() as tape:
        tape.watch(h)
        for x_t in x:
            states.append(h)
            summed.append(x_t @ W + h @ U)
            h, _ = cell(x_t, [h])
        loss = tf.reduce_sum(h * projection)
    gradients = tape.gradient(loss, states)
    return {
        "summed_inputs": [float(tf.sqrt(tf.reduce_mean(a**2))) for a in summed],
        "gradients": [float(tf.norm(g)) for g in gradients],
    }


def invariance_rows(entries: Sequence[Entry]) -> list[list[str]]:
    """A row for every change, and whether it leaves the outputs of each norm where they are."""
    return [
        [change, *("yes" if entry["moved"][change] < INVARIANT else "no" for entry in entries)]
        for change in CHANGES
    ]


def gap_rows(entries: Iterable[Entry]) -> list[list[str]]:
    """A row for every model."""
    return [[e["model"], f"{e['largest']:.2f}", f"{e['gap']:.1g}"] for e in entries]


def plot(entries: Sequence[Entry], path: pathlib.Path) -> None:
    """Draw summed inputs and gradients over the steps: a colour a model, a dash a gain."""
    figure = matplotlib.figure.Figure(figsize=(10, 4), layout="constrained")
    titles = {
        "summed_inputs": "Summed inputs, root mean square",
        "gradients": "Gradient of the last state, norm",
    }
    dashes = dict(zip(dict.fromkeys(e["task"] for e in entries), (":", "-", "--"), strict=True))
    for axes, (name, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for entry in entries:
            values = np.array(entry[name])
            axes.semilogy(
                np.arange(len(values)),
                np.where(values > 0, values, np.nan),  # a gradient can be zero
                dashes[entry["task"]],
                color=COLOURS[entry["model"]],
                label=f"{entry['model']}, {entry['task']}",
            )
        axes.set(xlabel="step")
        axes.set_title(title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and plot; 0."""
    asked = command.parse("claims", __doc__, PRESETS, argv)
    settings, seed = asked.settings, asked.seed
    results = Results(asked)
    table = [
        results.once("invariance", run, functools.partial(invariance, settings, run))
        for run in (Run("invariance", norm, seed) for norm in NORMS)
    ]
    gaps = [
        results.once("mode_gap", run, functools.partial(mode_gap, settings, run))
        for run in (Run("training against inference", model, seed) for model in LSTMS)
    ]
    lines = [
        results.once("recurrence", run, functools.partial(recurrence, settings, gain, run))
        for gain in settings.gains
        for run in (Run(f"gain {gain:g}", model, seed) for model in RECURRENCES)
    ]
    plot(lines, asked.out / "curves.png")
    tables.show("Invariances", INVARIANCE_HEADER, invariance_rows(table))
    tables.show("Training against inference", GAP_HEADER, gap_rows(gaps))
    print(f"The figures are in {results.path}, the curves in {asked.out / 'curves.png'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
