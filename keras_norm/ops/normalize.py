"""Divide centered values by their standard deviation, and apply gamma and beta."""

from keras import ops

from keras_norm.ops.custom_gradient import Gradient, with_custom_gradient
from keras_norm.ops.sums import broadcast_axes, total
from keras_norm.typing import Tensor


def normalize(
    centered: Tensor,
    variance: Tensor,
    epsilon: float,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon_placement: str = "inside",
) -> Tensor:
    """Divide centered values by their standard deviation, multiply by gamma, and add beta.

    ::

        inside:    a = 1 / sqrt(variance + epsilon)
        outside:   a = 1 / (sqrt(variance) + epsilon)

        y = gamma * a * centered + beta

    Args:
        centered: x - mean.
        variance: tensor that broadcasts to `centered`.
        epsilon: number added to the variance ("inside") or to its square root ("outside").
        gamma: tensor that broadcasts to `centered`, with equal rank; None for 1.
        beta: tensor that broadcasts to `centered`, with equal rank; None for 0.
        epsilon_placement: "inside" or "outside".
    """

    def function(
        centered: Tensor, variance: Tensor, gamma: Tensor | None, beta: Tensor | None
    ) -> tuple[Tensor, Gradient]:
        if epsilon_placement == "inside":
            a = ops.rsqrt(variance + epsilon)
        else:
            # Replace a variance of 0 by 1 before `sqrt`. The derivative of `sqrt` at 0 is infinite:
            # padding, whose variance is 0, would get a gradient of NaN.
            positive = variance > 0
            root = ops.sqrt(ops.where(positive, variance, 1.0))
            a = 1.0 / (ops.where(positive, root, 0.0) + epsilon)

        def gradient(dy: Tensor) -> list[Tensor | None]:
            if epsilon_placement == "inside":
                slope = -0.5 * a * a * a
            else:
                slope = ops.where(positive, -0.5 * a * a / root, 0.0)
            d_beta = None if beta is None else total(dy, broadcast_axes(dy, beta))
            d_a, d_gamma = _scale_gradients(dy * centered, a, gamma)
            return [_scale(dy, a, gamma), d_a * slope, d_gamma, d_beta]

        y = _scale(centered, a, gamma)
        return (y if beta is None else y + beta), gradient

    rank = len(centered.shape)
    variance = ops.reshape(variance, [1] * (rank - len(variance.shape)) + list(ops.shape(variance)))
    gamma, beta = (None if w is None else ops.cast(w, centered.dtype) for w in (gamma, beta))
    return with_custom_gradient(function, centered, variance, gamma, beta)


def _scale(x: Tensor, a: Tensor, gamma: Tensor | None) -> Tensor:
    """Multiply x by gamma and by `a`, the reciprocal of the standard deviation.

    If gamma * a is smaller than x, it is computed first. Then only one operation runs on a tensor
    of the size of x.
    """
    if gamma is None:
        return x * a
    return x * (a * gamma) if _common_axes(x, a, gamma) else x * a * gamma


def _scale_gradients(p: Tensor, a: Tensor, gamma: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Compute the gradients of y = gamma * a * centered with respect to a and gamma.

    `a` is the reciprocal of the standard deviation, and `p` is dy * centered.
    """
    if gamma is None:
        return total(p, broadcast_axes(p, a)), None
    p = total(p, _common_axes(p, a, gamma))
    return total(p, broadcast_axes(p, a), gamma), total(p, broadcast_axes(p, gamma), a)


def _common_axes(x: Tensor, a: Tensor, gamma: Tensor) -> list[int]:
    """List the axes along which both `a` and `gamma` are broadcast to x."""
    return sorted(set(broadcast_axes(x, a)) & set(broadcast_axes(x, gamma)))
