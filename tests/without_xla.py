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
    patch.setattr(recurrence, "compiled", in_steps)
    patch.setattr(recurrence, "traced", in_steps)


def array(dtype, time, *shape):
    """`programs.array`. An eager one would forget what has been read once."""
    return tf.TensorArray(dtype, time, element_shape=shape, clear_after_read=False)


def in_steps(function, *settings):
    """A program as it is traced; an eager caller's runs step by step.

    What is traced around these programs is not to be taken for what is traced around compiled ones.
    """
    if tf.executing_eagerly():
        return functools.partial(function, *settings)
    return _traced(function, *settings)


_traced = functools.cache(programs.traced.__wrapped__)
