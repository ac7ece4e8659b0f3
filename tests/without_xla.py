"""Run the custom gradient of recurrences without XLA, so that tests take less time."""

import functools

import tensorflow as tf

from keras_norm.rnn.gradient import programs, recurrence


def trace(patch):
    """Replace the compiled loops by traced loops; compilation would take most of the time.

    Args:
        patch: the MonkeyPatch of the test's own patches. Two MonkeyPatches would not be undone in
            the reverse order.
    """
    patch.setattr(programs, "array", array)
    patch.setattr(recurrence, "compiled", in_steps)
    patch.setattr(recurrence, "traced", in_steps)


def array(dtype, time, *shape):
    """Make the array of `programs.array`, with elements that stay after they are read."""
    return tf.TensorArray(dtype, time, element_shape=shape, clear_after_read=False)


def in_steps(function, *settings):
    """Return a traced program for a caller in a graph, and the function for an eager caller."""
    if tf.executing_eagerly():
        return functools.partial(function, *settings)
    return traced(function, *settings)


# The cache is not that of the compiled programs, so that compiled and traced graphs never mix.
traced = functools.cache(programs.traced.__wrapped__)
