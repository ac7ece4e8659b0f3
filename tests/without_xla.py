"""The gradient by hand without XLA, for tests of anything else."""

import contextlib
import functools

import pytest
import tensorflow as tf

from keras_norm.rnn.gradient import backward, forward, programs, recurrence


@contextlib.contextmanager
def traced():
    """The two loops run as they are traced; their compiles would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "array", array)
        for name, program in {**PROGRAMS, **FUNCTIONS}.items():
            patch.setattr(recurrence, name, program)
        yield


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
    def graph_of(*spec):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "compiled", graph)
            return program.__wrapped__(*spec)

    def run(*spec):
        return functools.partial(function, *spec) if tf.executing_eagerly() else graph_of(*spec)

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
