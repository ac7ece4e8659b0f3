"""Memory of a step. tests/rnn/test_equations.py compares the gradients of steps."""

import pytest
import tensorflow as tf

from keras_norm.rnn.core.operations import activate
from keras_norm.rnn.core.step_norms import StepNorms
from tests.rnn import kinds
from tests.rnn.kinds import GRU, KINDS, LSTM, SIMPLE_RNN

BATCH, UNITS = 3, 2
# Columns of each group of x W and of h U, in multiples of units.
GROUPS = {LSTM: [4], GRU: [2, 1], SIMPLE_RNN: [1]}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_step_stores_the_gradients_of_x_and_u_once_and_gates_in_place_of_x(kind):
    weights = {"gamma": {}, "beta": {}}
    norms = StepNorms(kind.cell, {}, weights, {"moving": {}})
    x, u = ([tf.constant(kinds.draw(BATCH, n * UNITS)) for n in GROUPS[kind]] for _ in range(2))
    states = [tf.constant(kinds.draw(BATCH, UNITS))] * kind.states
    step = kind.cell.forward_step(x, u, states, {}, activate, norms)
    assert [gate.shape for gate in step.gates] == [(BATCH, UNITS)] * sum(GROUPS[kind])
    arguments = step.gates, step.residuals, states, step.states, states
    found = kind.cell.backward_step(*arguments, {}, norms)
    assert found.x[0] is found.u[0]
