"""How the gradient by hand runs in the tests of this folder."""

import functools

import pytest
import tensorflow as tf

from keras_norm.rnn.gradient import backward, forward, programs, recurrence


@pytest.fixture
def xla():
    """For tests of the programs as users have them."""


@pytest.fixture(autouse=True)
def loops(request, monkeypatch):
    """The two loops run without XLA, whose compiles would take most of the time.

    Tests that ask for `xla` have the compiled programs.
    """
    if "xla" not in request.fixturenames:
        monkeypatch.setattr(programs, "array", array)
        for name, program in {**PROGRAMS, **FUNCTIONS}.items():
            monkeypatch.setattr(recurrence, name, program)


def array(dtype, time, *shape):
    """`programs.array`. An eager one would forget what has been read once."""
    return tf.TensorArray(dtype, time, element_shape=shape, clear_after_read=False)


def graph(function, *signature):
    """`programs.compiled` without XLA."""
    traced = tf.function(function, autograph=False, input_signature=signature)
    with tf.init_scope():
        return traced.get_concrete_function()


def without_xla(module, function, program):
    """A program as it is traced, once for all tests; an eager caller's runs step by step."""

    @functools.cache
    def traced(*spec):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "compiled", graph)
            return program.__wrapped__(*spec)

    def run(*spec):
        return functools.partial(function, *spec) if tf.executing_eagerly() else traced(*spec)

    return run


def around(name):
    """A function of `recurrence` around the programs, whose trace would cost more than its run.

    What is traced around these programs is not to be taken for what is traced around compiled ones.
    """
    traced = functools.cache(getattr(recurrence, name).__wrapped__)

    def function(*spec):
        return traced(*spec).python_function if tf.executing_eagerly() else traced(*spec)

    return function


PROGRAMS = {
    "forward_program": without_xla(forward, forward.forward, forward.forward_program),
    "backward_program": without_xla(backward, backward.backward, backward.backward_program),
}
FUNCTIONS = {name: around(name) for name in ("_forward_function", "_gradient_function")}
