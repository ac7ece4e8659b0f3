"""What is expected of the private names that the package needs."""

import numpy as np
import tensorflow as tf

from keras_norm.keras_internals import dynamic_update_slice, xla_compiles


def test_rows_of_an_array_are_replaced():
    array, rows = np.zeros((4, 2), "float32"), np.ones((2, 2), "float32")
    updated = dynamic_update_slice(tf.constant(array), tf.constant(rows), tf.constant([1, 0]))
    np.testing.assert_array_equal(updated, [[0, 0], [1, 1], [1, 1], [0, 0]])


def test_xla_compiles_what_is_traced_for_it_and_nothing_else():
    found = []

    def turn(i):
        found.append(xla_compiles())
        return [i + 1]

    def loop():
        return tf.while_loop(lambda i: i < 1, turn, [tf.constant(0)])

    loop()
    tf.function(loop)()
    tf.function(loop, jit_compile=True)()
    assert found == [False, False, True]
