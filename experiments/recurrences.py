"""Summed inputs and gradients over the steps of a long recurrence: claim 4, without training."""

import functools
import pathlib

import keras
import numpy as np
import tensorflow as tf

import keras_norm
from experiments.harness.study import Arm, Measurement, Question, Size, Study, arms

STEPS, UNITS, BATCH, FEATURES = 200, 64, 16, 32
ORDINARY = "gain 1"
GAINS = {"gain 0.5": 0.5, ORDINARY: 1.0, "gain 2": 2.0}

CELLS = {
    "RNN": lambda **options: keras_norm.NormSimpleRNNCell(UNITS, activation="relu", **options),
    "LSTM": lambda **options: keras_norm.NormLSTMCell(UNITS, **options),
    "GRU": lambda **options: keras_norm.NormGRUCell(UNITS, **options),
}
MODELS = tuple(prefix + cell for cell in CELLS for prefix in ("", "LN-"))


def measure(arm: Arm, seed: int, data: pathlib.Path | None = None) -> dict[str, float]:
    """By how many powers of ten the summed inputs and the gradients change over the steps.

    The summed inputs are x_t W + h_(t-1) U, the gradient is that of a random projection of the last
    h with respect to every h before it. Both ways, growing and shrinking, count as change.
    """
    rng = np.random.default_rng(seed)
    normalized = arm.model.startswith("LN-")
    cell = CELLS[arm.model.removeprefix("LN-")](
        norm=keras_norm.LayerNormalization(epsilon=1e-5) if normalized else None,
        recurrent_initializer=keras.initializers.Orthogonal(GAINS[arm.task]),
        dtype="float64",
    )
    x = tf.constant(rng.normal(size=(STEPS, BATCH, FEATURES)))
    projection = tf.constant(rng.normal(size=(BATCH, UNITS)))
    cell.build(x.shape[1:])
    W, U = (tf.convert_to_tensor(w) for w in (cell.kernel, cell.recurrent_kernel))

    @tf.function
    def step(x_t: tf.Tensor, states: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        return x_t @ W + states[0] @ U, cell(x_t, states)[1]

    @tf.function
    def back(x_t: tf.Tensor, states: list[tf.Tensor], later: list[tf.Tensor]) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(states)
            _, after = cell(x_t, states)
        return tape.gradient(after, states, output_gradients=later)

    states = [tf.zeros((BATCH, size), "float64") for size in keras.tree.flatten(cell.state_size)]
    before, summed, gradients = [], [], []
    for x_t in x:
        before.append(states)
        sums, states = step(x_t, states)
        summed.append(sums)
    later = [projection, *(tf.zeros_like(state) for state in states[1:])]
    for x_t, states in zip(reversed(list(x)), reversed(before), strict=True):
        later = back(x_t, states, later)
        gradients.insert(0, float(tf.norm(later[0])))
    sizes = [float(tf.sqrt(tf.reduce_mean(a**2))) for a in summed]
    # From the second state on: the first is 0, and LayerNorm divides by sqrt(epsilon).
    return {"sums": decades(sizes[-1], sizes[1]), "gradients": decades(gradients[1], gradients[-1])}


def decades(after: float, before: float) -> float:
    """Powers of ten between two sizes, at most 300.

    >>> decades(1e-3, 1.0)
    3.0
    """
    with np.errstate(divide="ignore"):
        return float(min(abs(np.log10(after) - np.log10(before)), 300.0))


_power = functools.partial(Question, 4, unit="powers of ten", digits=1)
NAMES = {"RNN": "a plain recurrence", "LSTM": "an LSTM", "GRU": "a GRU"}


STUDY = Study(
    name="recurrences",
    title="A long recurrence",
    paper="Ba et al. 2016, section 3.1 says that summed inputs of a recurrence tend to grow or "
    "shrink at every step, and that LayerNorm makes them stable; it shows no figure of it.",
    otherwise="Smaller: nothing. Random inputs, 200 steps, 64 units, orthogonal recurrent "
    "matrices times a gain, float64. Gated cells stand beside the plain recurrence with ReLU. "
    "What counts is the change over all steps, either way, in powers of ten; one power is a "
    "difference. LayerNorm divides by the gain, so that its figures are those of one recurrence "
    "at all three.",
    changed="Five seeds left one question open, of the LSTM at gain 2: all have ten. Whether "
    "gradients are held at all, gain 1, and what a recurrence does without a norm, was asked "
    "later.",
    work=Measurement(measure),
    arms=arms(dict.fromkeys(GAINS, BATCH), MODELS),
    questions=(
        *(
            _power(
                f"without a norm the sums of a plain recurrence grow or shrink ({gain})",
                "sums",
                ((gain, "RNN"),),
                above=1.0,
            )
            for gain in GAINS
        ),
        *(
            _power(
                f"without a norm the gradients of {name} grow or shrink ({ORDINARY})",
                "gradients",
                ((ORDINARY, cell),),
                above=1.0,
            )
            for cell, name in NAMES.items()
        ),
        *(
            _power(
                f"LayerNorm holds the sums of a plain recurrence ({gain})",
                "sums",
                minus=((gain, "LN-RNN"),),
                above=-1.0,
            )
            for gain in GAINS
        ),
        *(
            _power(
                f"it holds the gradients of {name} ({ORDINARY})",
                "gradients",
                minus=((ORDINARY, f"LN-{cell}"),),
                above=-1.0,
            )
            for cell, name in NAMES.items()
        ),
        *(
            _power(
                f"gradients of {name} change less with it than without ({gain})",
                "gradients",
                ((gain, cell),),
                ((gain, f"LN-{cell}"),),
                above=1.0,
            )
            for cell, name in NAMES.items()
            for gain in GAINS
        ),
    ),
    full=Size(None, 0, 0, patience=0, seeds=10, rates=()),
    smoke=Size(None, 0, 0, patience=0, seeds=1, rates=()),
    minutes=0.1,
    scores={
        "sums": ("change of the summed inputs, powers of ten", 1, 1),
        "gradients": ("change of the gradient, powers of ten", 1, 1),
    },
)
