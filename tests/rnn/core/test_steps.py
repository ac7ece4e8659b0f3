"""The backward step of each cell, against central differences of its forward step."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.ops.timestep_norm import TimestepNorm
from keras_norm.rnn.core.operations import activate
from keras_norm.rnn.core.recurrence import Recurrence, Slot, StepNorms
from tests.rnn.kinds import GRU, LSTM, SIMPLE_RNN

BATCH, UNITS = 3, 2
STEP = 1e-5  # of the central differences, whose error is about STEP ** 2

# Columns of each group of x W and of h U, in multiples of units.
GROUPS = {LSTM: [4], GRU: [2, 1], SIMPLE_RNN: [1]}
STATE_NORMS = {
    "none": None,
    "layer": SampleNorm(True, 0.1),
    "layer, ddof, outside": SampleNorm(True, 0.1, ddof=1, outside=True),
    "rms": SampleNorm(False, 0.1),
    "batch": TimestepNorm(0.1, learning=True),
    "moving": TimestepNorm(0.1, learning=False),
}
CASES = [(GRU, "none"), (SIMPLE_RNN, "none"), *((LSTM, name) for name in STATE_NORMS)]


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def sources_of(kind, norm):
    """Draw x W and h U of each group, the states, and gamma and beta of the state norm."""
    groups = list(enumerate(GROUPS[kind]))
    affine = {} if norm is None else {"state_norm": draw(UNITS, seed=50)}
    return {
        "x": [draw(BATCH, n * UNITS, seed=10 + k) for k, n in groups],
        "u": [draw(BATCH, n * UNITS, seed=20 + k) for k, n in groups],
        "states": [draw(BATCH, UNITS, seed=30 + k) for k in range(kind.states)],
        "gamma": affine,
        "beta": {slot: 0.5 * beta for slot, beta in affine.items()},
    }


def norms_of(kind, norm, sources, statistics=None):
    """Create the norms inside a step."""
    inner = (Slot("state_norm", UNITS, norm),) if kind is LSTM else ()
    moving = [draw(1, UNITS, seed=60), np.exp(draw(1, UNITS, seed=61))]
    weights = {name: sources[name] for name in ("gamma", "beta")}
    recurrence = Recurrence(kind.cell, (), (), inner)
    return StepNorms(recurrence, weights, {"moving": {"state_norm": moving}}, statistics)


def forward(kind, norm, sources):
    """Compute the step, and return it with its norms."""
    norms = norms_of(kind, norm, sources)
    x, u, states = (list(map(tf.constant, sources[name])) for name in ("x", "u", "states"))
    return kind.cell.forward_step(x, u, states, {}, activate, norms), norms


def d_states_of(kind):
    return [draw(BATCH, UNITS, seed=40 + k) for k in range(kind.states)]


def central_differences(kind, norm, sources):
    """Differentiate sum(d_states * new states) for every source."""

    def loss():
        step, _ = forward(kind, norm, sources)
        return sum((np.asarray(s) * d).sum() for s, d in zip(step.states, ds, strict=True))

    def differentiate(source):
        gradient = np.zeros_like(source)
        for index in np.ndindex(source.shape):
            value, losses = source[index], []
            for shift in (STEP, -STEP):
                source[index] = value + shift
                losses.append(loss())
            source[index] = value
            gradient[index] = (losses[0] - losses[1]) / (2 * STEP)
        return gradient

    ds = d_states_of(kind)
    return keras.tree.map_structure(differentiate, sources)


def backward(kind, norm, sources):
    """Compute the gradients of the step for every source."""
    step, after = forward(kind, norm, sources)
    norms = norms_of(kind, norm, sources, after.statistics)
    old, ds = (list(map(tf.constant, a)) for a in (sources["states"], d_states_of(kind)))
    found = kind.cell.backward_step(step.gates, step.residuals, old, step.states, ds, {}, norms)
    states = [np.zeros((BATCH, UNITS)) if d is None else d for d in found.states]
    affine = {
        name: {
            slot: np.sum(gradients[name], axis=0)
            for slot, gradients in norms.gradients.items()
            if slot in sources[name]
        }
        for name in ("gamma", "beta")
    }
    return {"x": found.x, "u": found.u, "states": states, **affine}


@pytest.mark.parametrize(("kind", "norm"), CASES, ids=str)
def test_the_gradients_of_a_step_equal_central_differences(kind, norm):
    norm = STATE_NORMS[norm]
    sources = sources_of(kind, norm)
    found, expected = backward(kind, norm, sources), central_differences(kind, norm, sources)
    assert found.keys() == expected.keys()
    for name in expected:
        for actual, exact in zip(
            keras.tree.flatten(found[name]), keras.tree.flatten(expected[name]), strict=True
        ):
            np.testing.assert_allclose(actual, exact, rtol=0, atol=1e-8, err_msg=name)
    assert found["x"][0] is found["u"][0]  # stored once
    # The gates replace x W in memory.
    step, _ = forward(kind, norm, sources)
    assert [gate.shape for gate in step.gates] == [(BATCH, UNITS)] * sum(GROUPS[kind])


@pytest.mark.parametrize(
    "kinds", [("gate",), ("candidate",), ("gate", "gate", "candidate", "gate")], ids=str
)
def test_one_tanh_activates_all_gates(kinds):
    z = 3.0 * draw(BATCH, len(kinds) * UNITS)
    gates = zip(
        activate(tf.constant(z), kinds), np.split(z, len(kinds), axis=1), kinds, strict=True
    )
    for found, a, kind in gates:
        expected = np.tanh(a) if kind == "candidate" else 1 / (1 + np.exp(-a))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
