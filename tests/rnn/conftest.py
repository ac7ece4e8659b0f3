"""How the gradient by hand runs in the tests of this folder."""

import functools

import pytest
import tensorflow as tf

from keras_norm.rnn.gradient import programs, recurrence
from keras_norm.rnn.gradient.backward import backward
from keras_norm.rnn.gradient.forward import forward


@pytest.fixture
def xla():
    """For tests of the programs as users have them."""


@pytest.fixture(autouse=True)
def loops(request, monkeypatch):
    """The two loops run as they are, without XLA, whose compiles would take most of the time.

    Tests that ask for `xla` have the compiled ones.
    """
    if "xla" in request.fixturenames:
        return

    def array(dtype, time, *shape):
        # An eager array would else forget what has been read once.
        return tf.TensorArray(dtype, time, element_shape=shape, clear_after_read=False)

    monkeypatch.setattr(programs, "array", array)
    of_loops = {
        "forward_program": lambda *spec: functools.partial(forward, *spec),
        "backward_program": lambda spec: functools.partial(backward, spec),
    }
    for name, program in of_loops.items():
        monkeypatch.setattr(recurrence, name, program)
