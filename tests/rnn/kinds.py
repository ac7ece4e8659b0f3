"""LSTM, GRU and SimpleRNN with their norms, and their comparison with the NumPy oracle."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_norm
from keras_norm import (
    BatchNormalization,
    LayerNormalization,
    RMSNormalization,
    TimestepBatchNormalization,
    VarianceNormalization,
)
from keras_norm.rnn.compiled import recurrence_of
from keras_norm.rnn.core.lstm_options import PEEPHOLES
from keras_norm.rnn.random_masks import NO_MASKS
from tests import oracles

BATCH, TIME, FEATURES, UNITS = 5, 4, 2, 4

# The sequences: unpadded, right padded, left padded, masked in the middle, fully masked. Timestep 1
# has two unmasked sequences, every other timestep has three.
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 1], [0, 0, 0, 0]], bool)
MASKS = {"unmasked": None, "masked": MASK}


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of recurrence: its classes here and in Keras, and the oracle's step."""

    name: str
    states: int
    gates: int
    slots: Mapping[str, int]
    step: Callable

    def __str__(self) -> str:
        return self.name

    @property
    def layer(self) -> type:
        return getattr(keras_norm, f"Norm{self.name}")

    @property
    def cell(self) -> type:
        return getattr(keras_norm, f"Norm{self.name}Cell")

    @property
    def keras_layer(self) -> type:
        return getattr(keras.layers, self.name)

    def preset(self, prefix: str, suffix: str = "") -> type:
        return getattr(keras_norm, f"{prefix}{self.name}{suffix}")


LSTM_SLOTS = {"kernel_norm": 4, "recurrent_norm": 4, "state_norm": 1}
GRU_SLOTS = {"kernel_norm": 2, "kernel_candidate_norm": 1}
GRU_SLOTS |= {"recurrent_norm": 2, "recurrent_candidate_norm": 1}
SIMPLE_SLOTS = {"kernel_norm": 1, "recurrent_norm": 1}
LSTM = Kind("LSTM", 2, 4, LSTM_SLOTS, oracles.lstm_step)
GRU = Kind("GRU", 1, 3, GRU_SLOTS, oracles.gru_step)
SIMPLE_RNN = Kind("SimpleRNN", 1, 1, SIMPLE_SLOTS, oracles.simple_rnn_step)
KINDS = [LSTM, GRU, SIMPLE_RNN]


def kind_of(layer: Any) -> Kind:
    """Return the kind of a layer or of a cell."""
    return next(kind for kind in KINDS if isinstance(layer, (kind.layer, kind.cell)))


# Templates without batch statistics; a dict has norms for some slots only.
PER_SAMPLE_NORMS = {
    "none": None,
    "layer": LayerNormalization(epsilon=1e-3),
    "rms": RMSNormalization(),
    "variance": VarianceNormalization(center=True, scale=True),
    "recurrent only": {"recurrent_norm": LayerNormalization()},
    "mixed slots": {"kernel_norm": RMSNormalization(), "recurrent_norm": VarianceNormalization()},
    "keras group": keras.layers.GroupNormalization(groups=2),
    "keras unit": keras.layers.UnitNormalization(),
}
BATCH_NORMS = {
    "batch": BatchNormalization(debias=True),
    "timestep": TimestepBatchNormalization(TIME - 1),
}
NORMS = {**PER_SAMPLE_NORMS, **BATCH_NORMS}


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    """Draw standard normal float64 numbers."""
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def inputs(batch: int = BATCH, time: int = TIME) -> np.ndarray:
    """Draw sequences (batch, time, FEATURES)."""
    return draw(batch, time, FEATURES)


def initial_states(kind: Kind, batch: int = BATCH) -> list[np.ndarray]:
    """Draw initial states, each (batch, UNITS)."""
    return [draw(batch, UNITS, seed=10 + k) for k in range(kind.states)]


def states_of(layer: Any) -> list[np.ndarray]:
    """Draw initial states of the sizes that a layer has."""
    sizes = layer.cell.recurrent_state_sizes
    return [draw(BATCH, n, seed=10 + k) for k, n in enumerate(sizes)]


def build(kind: Kind, norm: Any = None, **kwargs: Any) -> Any:
    """Build a float64 layer that returns sequences and states, with random weights."""
    options = {"dtype": "float64", "return_sequences": True, "return_state": True, **kwargs}
    return built(kind.layer(UNITS, norm=norm, **options))


def built(layer: Any, features: int = FEATURES) -> Any:
    """Build a layer and give it random weights."""
    layer.build((None, None, features))
    randomize(layer)
    return layer


def randomize(layer: Any) -> None:
    """Assign random numbers to every trainable weight; gains are near 1."""
    for k, weight in enumerate(layer.trainable_weights):
        gain = 1.0 if weight.name in ("gamma", "scale") else 0.0
        weight.assign(gain + 0.5 * draw(*weight.shape, seed=20 + k))


def randomize_statistics(layer: Any, reached: int | None = None) -> None:
    """Assign random moving statistics; the first `reached` timesteps are trained (None: all)."""
    for k, weight in enumerate(layer.non_trainable_weights):
        if weight.name == "update_count":
            rows = np.ones(weight.shape, "int32")
            weight.assign(rows if reached is None else rows * (np.arange(len(rows)) < reached))
        else:
            low = 0.5 if weight.name == "moving_variance" else -1.0
            numbers = np.random.default_rng(100 + k).uniform(low, low + 1.0, weight.shape)
            weight.assign(numbers)


def recurrence(layer: Any, training: bool = True) -> Any:
    """Describe the recurrence of a layer without dropout; None if the layer trains in the loop."""
    return recurrence_of(layer.cell, training, NO_MASKS)


def statistics(layer: Any) -> list[np.ndarray]:
    """Return the moving statistics and their update counts."""
    return [w.numpy() for w in layer.non_trainable_variables if "seed" not in w.path]


def cast(states: Any, dtype: str = "float64") -> Any:
    """Convert arrays to tensors."""
    return keras.tree.map_structure(lambda s: tf.constant(s, dtype), states)


# The oracle -------------------------------------------------------------------------------------


def variables(cell: Any) -> dict[str, Any]:
    """Return the trainable variables of a cell by name, such as "kernel_norm/gamma"."""
    names = "kernel", "recurrent_kernel", "bias", *PEEPHOLES, "projection_kernel"
    named = {name: getattr(cell, name, None) for name in names}
    for slot, layer in cell.slot_layers().items():
        for name in ("gamma", "scale", "beta"):
            weight = getattr(layer, name, None)
            if isinstance(weight, keras.Variable) and weight.name == name:
                named[f"{slot}/{name}"] = weight
    return {name: variable for name, variable in named.items() if variable is not None}


def values(cell: Any) -> dict[str, np.ndarray]:
    """Return the trainable weights of a cell as float64 arrays."""
    return {name: np.asarray(v, "float64") for name, v in variables(cell).items()}


class MovingNorms(dict):
    """Oracles of the moving statistics by slot; a BatchNormalization has one row."""

    def __init__(self, cell: Any):
        for slot, layer in cell.slot_layers().items():
            if hasattr(layer, "moving_mean"):
                rows, features = np.atleast_2d(layer.moving_mean).shape
                self[slot] = oracles.TimestepBatchNorm(
                    rows,
                    features,
                    epsilon=layer.epsilon,
                    momentum=layer.momentum,
                    debias=layer.debias,
                    unbiased_variance=layer.unbiased_variance,
                    min_sequences=layer.min_sequences if layer.per_timestep else None,
                )

    def end_batch(self) -> None:
        for norm in self.values():
            norm.end_batch()


def reference(
    cell: Any,
    weights: Mapping[str, np.ndarray],
    x: np.ndarray,
    states: list[np.ndarray],
    mask: np.ndarray | None = None,
    *,
    training: bool = False,
    moving: MovingNorms | None = None,
    step_options: Mapping[str, Any] | None = None,
    changes: Sequence[np.ndarray] = (),
    candidate: np.ndarray | None = None,
    **sequence_options: Any,
) -> list[np.ndarray]:
    """Compute all outputs and the final states with the oracle.

    `weights` are the trainable weights, from `values`. `moving` are oracles that update statistics
    over several batches; None uses the variables of the cell. `changes` are the shares of the new
    value of each state at each timestep, for zoneout, and `candidate` the factors of the candidate
    at each timestep, for its dropout. The sequence options are those of
    `oracles.run_sequence`.
    """
    kind = kind_of(cell)
    slots = cell.slot_layers()
    options = dict(step_options or {})
    if set(PEEPHOLES) <= weights.keys():
        options["peepholes"] = [weights[name] for name in PEEPHOLES]
    if "projection_kernel" in weights:
        options["projection"] = weights["projection_kernel"]
    if getattr(cell, "cell_clip", None):
        options["cell_clip"] = cell.cell_clip
    statistics_of = {slot: [w.numpy() for w in statistics_in(slots[slot])] for slot in slots}

    def step(x: Any, states: Any, t: int, unmasked: Any) -> Any:
        def norm(slot: str) -> Callable:
            affine = {name: weights.get(f"{slot}/{name}") for name in ("gamma", "scale", "beta")}
            layer = slots[slot]
            if moving is not None and slot in moving:
                moving[slot].gamma, moving[slot].beta = affine["gamma"], affine["beta"]
                return lambda z: moving[slot].step(z, t, unmasked, training)
            return lambda z: apply(layer, z, affine, t, statistics_of[slot])

        output, new = kind.step(
            x,
            states,
            weights["kernel"],
            weights["recurrent_kernel"],
            weights.get("bias"),
            **{slot: norm(slot) for slot in slots},
            norm_form=cell.norm_form,
            **({} if candidate is None else {"candidate": candidate[t]}),
            **options,
        )
        shares = [np.asarray(change[t], "float64") for change in changes]
        if shares:
            of_states = zip(shares, new, states, strict=True)
            new = [share * n + (1 - share) * o for share, n, o in of_states]
            output = new[0]
        return output, new

    counts = any(getattr(norm, "count_leading_padding", False) for norm in slots.values())
    sequence_options["count_leading_padding"] = counts
    outputs, states = oracles.run_sequence(step, x, states, mask, **sequence_options)
    if training and moving is not None:
        moving.end_batch()
    return [outputs, *states]


def statistics_in(layer: Any) -> list[Any]:
    """Return the moving mean, the moving variance and the update count of a norm that has them."""
    names = ("moving_mean", "moving_variance", "update_count")
    return [w for name in names if (w := getattr(layer, name, None)) is not None]


def apply(
    layer: Any, z: np.ndarray, affine: Mapping[str, Any], t: int, statistics: list[np.ndarray]
) -> np.ndarray:
    """Apply one norm at inference with the oracle."""
    gamma, scale, beta = affine["gamma"], affine["scale"], affine["beta"]
    if isinstance(layer, LayerNormalization):
        return oracles.layer_norm(z, gamma, beta, epsilon=layer.epsilon)
    if isinstance(layer, RMSNormalization):
        return oracles.rms_norm(z, scale, epsilon=layer.epsilon)
    if isinstance(layer, VarianceNormalization):
        return oracles.variance_norm(z, gamma, beta, epsilon=layer.epsilon)
    if isinstance(layer, keras.layers.GroupNormalization):
        groups = z.reshape(len(z), layer.groups, -1)
        y = oracles.layer_norm(groups, epsilon=layer.epsilon).reshape(z.shape)
        return y * gamma + beta
    if isinstance(layer, keras.layers.UnitNormalization):
        return z / np.sqrt((z * z).sum(axis=-1, keepdims=True))
    mean, variance, *count = statistics
    row = min(t, len(np.atleast_2d(mean)) - 1)
    if isinstance(layer, TimestepBatchNormalization) and count[0].any():
        # Inference uses the last trained row; these tests train rows from 0 on without gaps.
        row = min(row, np.flatnonzero(count[0])[-1])
    mean, variance = np.atleast_2d(mean)[row], np.atleast_2d(variance)[row]
    return oracles.batch_norm_inference(z, mean, variance, gamma, beta, epsilon=layer.epsilon)


# Comparisons ------------------------------------------------------------------------------------


def assert_close(actual: Any, expected: Any, atol: float = 1e-10) -> None:
    """Compare tensors, with a tolerance relative to the largest number of each tensor."""
    for a, e in zip(keras.tree.flatten(actual), keras.tree.flatten(expected), strict=True):
        largest = np.max(np.abs(np.asarray(e, "float64")), initial=1.0)
        np.testing.assert_allclose(a, e, rtol=0, atol=atol * largest)


def train(
    layer: Any, x: Any, states: Any = (), mask: Any = None, training: bool = True, **call: Any
) -> Any:
    """Call a layer, and return its results and the gradients of a nonlinear sum of them.

    The gradients are those of x, the states and the trainable weights. Sizes may be dynamic.
    """
    sources = [x, *states]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        results = layer(x, initial_state=list(states) or None, mask=mask, training=training, **call)
        results = tf.nest.flatten(results)
        loss = tf.add_n([tf.reduce_sum(tf.sin(3.0 * tf.cast(r, "float64"))) for r in results])
    sources += [v.value for v in layer.trainable_variables]
    return results, tape.gradient(loss, sources, unconnected_gradients="zero")


def in_graph_if_compiled(layer: Any, function: Callable, **options: Any) -> Callable:
    """Trace a function for the compiled path; the loop runs eagerly, which takes less time."""
    return tf.function(function, autograph=False, **options) if layer.compiled else function


def assert_compiled_equals_loop(
    make: Callable, *args: Any, run: Callable = train, atol: float = 1e-10, **kwargs: Any
) -> Any:
    """Compare the custom gradient with the loop: results, gradients, moving statistics.

    `make` is a function (compiled=True or False) -> layer, and `run` trains the layer and returns
    its results. Returns the layer with the custom gradient.
    """
    found = []
    for compiled in (False, True):
        layer = make(compiled=compiled)
        found.append([run(layer, *args, **kwargs), statistics(layer)])
    assert_close(found[1], found[0], atol)
    return layer


def reference_gradients(
    cell: Any, x: np.ndarray, states: list, run: Callable[..., list]
) -> dict[str, np.ndarray]:
    """Differentiate the loss of `train` with the oracle, by the complex step.

    The oracle is a function (weights, x, states) -> results.
    """
    sources = {"x": x, **{f"state {k}": s for k, s in enumerate(states)}, **values(cell)}

    def loss(sources: Mapping[str, np.ndarray]) -> Any:
        results = run(sources, sources["x"], [sources[f"state {k}"] for k in range(len(states))])
        return sum(np.sin(3.0 * result).sum() for result in results)

    return {
        name: oracles.gradient(lambda v, name=name: loss({**sources, name: v}), source)
        for name, source in sources.items()
    }


def assert_follows_oracle(layer: Any, mask: np.ndarray | None, atol: float = 1e-10, **options: Any):
    """Compare outputs and final states with the oracle, from random states; see `reference`."""
    x, states = inputs(), states_of(layer)
    actual = layer(cast(x, layer.dtype), initial_state=cast(states, layer.dtype), mask=mask)
    assert_close(
        actual, reference(layer.cell, values(layer.cell), x, states, mask, **options), atol
    )


def oracle_gradients(layer: Any, mask: np.ndarray | None, **options: Any) -> dict[str, np.ndarray]:
    """Compute every gradient of a layer with the oracle: weights, inputs, states."""

    def run(weights: Any, x: Any, states: Any) -> list:
        return reference(layer.cell, weights, x, states, mask, **options)

    return reference_gradients(layer.cell, inputs(), states_of(layer), run)


def assert_gradients_equal(
    layer: Any, expected: Mapping, mask: np.ndarray | None, training: bool, atol: float = 1e-10
) -> None:
    """Compare every gradient of a float64 layer with those of the oracle."""
    states = cast(states_of(layer))
    _, found = train_by_name(layer, cast(inputs()), states, mask, training)
    assert set(found) == set(expected)
    for name, gradient in found.items():
        np.testing.assert_allclose(gradient, expected[name], rtol=0, atol=atol, err_msg=name)


def train_by_name(layer: Any, x: Any, states: Any, *args: Any, **call: Any) -> Any:
    """Return the results of `train`, and the gradients by the names of `reference_gradients`."""
    results, found = train(layer, x, states, *args, **call)
    names = {id(variable): name for name, variable in variables(layer.cell).items()}
    sources = ["x", *(f"state {k}" for k in range(len(states)))]
    sources += [names[id(variable)] for variable in layer.trainable_variables]
    return results, dict(zip(sources, found, strict=True))
