"""The gradient by hand without XLA, for tests of anything else."""

import functools

import tensorflow as tf

from keras_norm.rnn.gradient import programs, recurrence


def trace(patch):
    """The two loops run as they are traced; their compiles would take most of the time.

    Args:
        patch: the MonkeyPatch that the test's own patches are made with: two would not be undone in
            the order in which they were made.
    """
    patch.setattr(programs, "array", array)
    patch.setattr(recurrence, "compiled", without_xla)
    patch.setattr(recurrence, "_traced_once", around)


def array(dtype, time, *shape):
    """`programs.array`. An eager one would forget what has been read once."""
    return tf.TensorArray(dtype, time, element_shape=shape, clear_after_read=False)


def without_xla(*function):
    """A program as it is traced, once for all tests; an eager caller's runs step by step."""
    return functools.partial(*function) if tf.executing_eagerly() else _graph_of(*function)


def around(*function):
    """What `recurrence` traces around the programs, whose trace would cost more than its run.

    What is traced around these programs is not to be taken for what is traced around compiled ones.
    """
    return functools.partial(*function) if tf.executing_eagerly() else _traced(*function)


_graph_of = functools.cache(functools.partial(programs.compiled.__wrapped__, jit_compile=False))
_traced = functools.cache(recurrence._traced_once.__wrapped__)
