"""The matrix products of an LSTM without its other operations: a lower bound on its time.

    inference     X W for all timesteps at once, then h U at each timestep
    training      the products of inference; dz U' at each timestep, in reverse order; then
                  dU = H' dZ, dW = X' dZ, dX = dZ W'

As in an LSTM, each product in a loop depends on the product before it. The loops run under XLA,
with the state as (batch, units) or as (units, batch), and with the batch in one program or in two.
The products outside the loops are TensorFlow operations.
"""

from collections.abc import Callable

import tensorflow as tf

from benchmarks.models import normal
from benchmarks.settings import TRAINING, Shape
from benchmarks.timing import Variant

SHRINK = 1e-3  # keeps the numbers finite


def gemm_step(shape: Shape, mode: str, layout: str, parts: int) -> Variant:
    """Create a variant that runs the products of one step.

    Args:
        shape: shape of the LSTM.
        mode: "training" or "inference".
        layout: "rows" computes h U with h (batch, units); "columns" computes U' h with h
            (units, batch).
        parts: number of programs that share the batch.
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
    # Each product uses every entry of the product before it, so XLA cannot skip any.
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
    """Compile a loop of state = refill(state @ matrix); "columns" multiplies matrix @ state."""

    def chain(state: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
        def body(t: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            product = state @ matrix if layout == "rows" else matrix @ state
            return t + 1, SHRINK * refill(product)

        return tf.while_loop(
            lambda t, state: t < steps, body, (0, state), maximum_iterations=steps
        )[1]

    return tf.function(chain, autograph=False, jit_compile=True)
