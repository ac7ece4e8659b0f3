"""Growth of summed inputs and gradients over the timesteps of a long recurrence: claim 4."""

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
    """Measure by how many powers of ten the summed inputs and the gradients change.

    The summed inputs are x_t W + h_(t-1) U. The gradient is that of a random projection of the
    last h with respect to each earlier h. Growing and shrinking both count as change.
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
    # The first state is 0, so LayerNorm divides by sqrt(epsilon); start at the second state.
    return {"sums": decades(sizes[-1], sizes[1]), "gradients": decades(gradients[1], gradients[-1])}


def decades(after: float, before: float) -> float:
    """Return the change between two sizes in powers of ten; at most 300.

    >>> decades(1e-3, 1.0)
    3.0
    """
    with np.errstate(divide="ignore"):
        return float(min(abs(np.log10(after) - np.log10(before)), 300.0))


_power = functools.partial(Question, 4, unit="powers of ten", digits=1)
NAMES = {"RNN": "a simple RNN", "LSTM": "an LSTM", "GRU": "a GRU"}


STUDY = Study(
    name="recurrences",
    title="A long recurrence",
    question="Do summed inputs and gradients grow or shrink over 200 timesteps of a recurrence? "
    "Does LayerNorm keep them stable?",
    paper="Ba et al. 2016, section 3.1: summed inputs of a recurrence tend to grow or shrink at "
    "every timestep, and LayerNorm makes them stable. The paper shows no figure of it.",
    differences="Nothing is smaller. Inputs are random, with 200 timesteps and 64 units. Recurrent "
    "matrices are orthogonal, times a gain, in float64. The study compares a simple RNN with "
    "ReLU, an LSTM and a GRU. The score is the total change over all timesteps, in powers of "
    "ten, in either direction. One power of ten counts. LayerNorm divides by the gain, so its "
    "values describe one recurrence at all three gains.",
    revisions="Five seeds left one question about the LSTM at gain 2 open, so all questions have "
    "ten seeds. Two questions were added later: whether gradients stay stable at all at gain 1, "
    "and what a recurrence does without a norm.",
    work=Measurement(measure),
    arms=arms(dict.fromkeys(GAINS, BATCH), MODELS),
    questions=(
        *(
            _power(
                f"without a norm, the summed inputs of a simple RNN grow or shrink ({gain})",
                "sums",
                ((gain, "RNN"),),
                threshold=1.0,
            )
            for gain in GAINS
        ),
        *(
            _power(
                f"without a norm, the gradients of {name} grow or shrink ({ORDINARY})",
                "gradients",
                ((ORDINARY, cell),),
                threshold=1.0,
            )
            for cell, name in NAMES.items()
        ),
        *(
            _power(
                f"LayerNorm keeps the summed inputs of a simple RNN stable ({gain})",
                "sums",
                minus=((gain, "LN-RNN"),),
                threshold=-1.0,
            )
            for gain in GAINS
        ),
        *(
            _power(
                f"LayerNorm keeps the gradients of {name} stable ({ORDINARY})",
                "gradients",
                minus=((ORDINARY, f"LN-{cell}"),),
                threshold=-1.0,
            )
            for cell, name in NAMES.items()
        ),
        *(
            _power(
                f"LayerNorm reduces the change of the gradients of {name} ({gain})",
                "gradients",
                ((gain, cell),),
                ((gain, f"LN-{cell}"),),
                threshold=1.0,
            )
            for cell, name in NAMES.items()
            for gain in GAINS
        ),
    ),
    full=Size(None, 0, 0, patience=0, seeds=10, rates=()),
    smoke=Size(None, 0, 0, patience=0, seeds=1, rates=()),
    scores={
        "sums": ("change of the summed inputs, powers of ten", 1, 1),
        "gradients": ("change of the gradient, powers of ten", 1, 1),
    },
)
