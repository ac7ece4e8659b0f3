"""The gradient by hand without XLA, for tests of anything else."""

import functools

import tensorflow as tf

from keras_norm.rnn.gradient import backward, forward, programs, recurrence


def trace(patch):
    """The two loops run as they are traced; their compiles would take most of the time.

    Args:
        patch: the MonkeyPatch that the test's own patches are made with: two would not be undone in
            the order in which they were made.
    """
    patch.setattr(programs, "array", array)
    traced = functools.partial(programs.compiled, jit_compile=False)
    patch.setattr(forward, "compiled", traced)
    patch.setattr(backward, "compiled", traced)
    for name, program in {**PROGRAMS, **FUNCTIONS}.items():
        patch.setattr(recurrence, name, program)


def array(dtype, time, *shape):
    """`programs.array`. An eager one would forget what has been read once."""
    return tf.TensorArray(dtype, time, element_shape=shape, clear_after_read=False)


def without_xla(function, program):
    """A program as it is traced, once for all tests; an eager caller's runs step by step."""
    graph_of = functools.cache(program.__wrapped__)

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
    "forward_program": without_xla(forward.forward, forward.forward_program),
    "backward_program": without_xla(backward.backward, backward.backward_program),
}
FUNCTIONS = {name: around(name) for name in ("_forward_function", "_gradient_function")}
