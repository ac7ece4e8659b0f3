"""Run the custom gradient of recurrences without XLA, so that tests take less time."""

import functools

import tensorflow as tf

from keras_norm.rnn.core import tensorflow_gradient, tensorflow_programs


def trace(patch):
    """Trace the loops without XLA, because compilation would take most of the time of a test.

    Args:
        patch: the MonkeyPatch of the test's own patches. Two MonkeyPatches would not be undone in
            the reverse order.
    """
    patch.setattr(tensorflow_programs.CompiledLoop, "compiles", False)
    patch.setattr(tensorflow_gradient, "traced", in_steps)


def in_steps(function, *settings):
    """Return a traced program for a caller in a graph, and the function for an eager caller."""
    if tf.executing_eagerly():
        return functools.partial(function, *settings)
    return traced(function, *settings)


# The cache is not that of the compiled programs, so that compiled and traced graphs never mix.
traced = functools.cache(tensorflow_programs.traced.__wrapped__)
