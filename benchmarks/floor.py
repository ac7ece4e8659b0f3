"""The floor: the matrix products of an LSTM's step and nothing else, as fast as we can run them.

    inference     X W for all timesteps at once, then h U at each timestep
    training      the same; dz U' at each timestep back; then dU = H' dZ, dW = X' dZ, dX = dZ W'

Each product in a loop depends on the one before it, and none starts before what it would wait for
in an LSTM. The loops run under XLA: on the state as (batch, units) or as (units, batch), and with
the batch as one program or as two at a time. The single products are TensorFlow's own.
"""

from collections.abc import Callable

import tensorflow as tf

from benchmarks.models import normal
from benchmarks.settings import TRAINING, Shape
from benchmarks.timing import Variant

SHRINK = 1e-3  # keeps the numbers finite


def gemm_step(shape: Shape, mode: str, layout: str, parts: int) -> Variant:
    """One step's products.

    Args:
        shape: of the LSTM.
        mode: "training" or "inference".
        layout: "rows" multiplies h, (batch, units), by U; "columns" U' by h, (units, batch).
        parts: programs that share the batch.
    """
    B, T, D, H = shape
    axis = 1 if layout == "rows" else 0
    x, z, h_all = normal(B * T, D), normal(B * T, 4 * H), normal(B * T, H)
    W, U = normal(D, 4 * H), normal(H, 4 * H)
    forward_matrix, backward_matrix = U, tf.transpose(U)
    h, dz = normal(B, H), normal(B, 4 * H)
    if layout == "columns":
        forward_matrix, backward_matrix = backward_matrix, forward_matrix
        h, dz = tf.transpose(h), tf.transpose(dz)
    state = tf.split(h, parts, axis=1 - axis)
    gradient = tf.split(dz, parts, axis=1 - axis)
    # Every entry of a product goes into the next one, so that XLA cannot compute less of it.
    forward = product_chain(lambda z: tf.add_n(tf.split(z, 4, axis=axis)), layout, T)
    backward = product_chain(lambda dh: tf.concat([dh] * 4, axis=axis), layout, T)

    def step(
        x: tf.Tensor, z: tf.Tensor, h_all: tf.Tensor, W: tf.Tensor, *matrices: tf.Tensor
    ) -> list[tf.Tensor]:
        results = [tf.matmul(x, W)]
        with tf.control_dependencies(results):
            last = [forward(part, matrices[0]) for part in state]
        if mode == TRAINING:
            with tf.control_dependencies(last):
                first = [backward(part, matrices[1]) for part in gradient]
            with tf.control_dependencies(first):
                results.append(tf.matmul(h_all, z, transpose_a=True))
                results.append(tf.matmul(x, z, transpose_a=True))
                results.append(tf.matmul(z, W, transpose_b=True))
            last += first
        return [last[0][0, 0], *last, *results]

    compiled = tf.function(step, autograph=False)
    arguments = (x, z, h_all, W, forward_matrix, backward_matrix)
    return Variant(lambda: float(compiled(*arguments)[0]))


def product_chain(
    refill: Callable[[tf.Tensor], tf.Tensor], layout: str, steps: int
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """State <- refill(state matrix), or refill(matrix state) in columns, as one XLA program."""

    def chain(state: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
        def body(t: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            product = state @ matrix if layout == "rows" else matrix @ state
            return t + 1, SHRINK * refill(product)

        return tf.while_loop(
            lambda t, state: t < steps, body, (0, state), maximum_iterations=steps
        )[1]

    return tf.function(chain, autograph=False, jit_compile=True)
