"""Scale centred values by their deviation, a gain and an offset."""

from typing import Any

from keras import ops

from keras_norm.ops.gradients import Gradient, with_gradient
from keras_norm.ops.sums import broadcast_axes, total


def normalize(
    centred: Any,
    variance: Any,
    epsilon: float,
    gamma: Any = None,
    beta: Any = None,
    epsilon_placement: str = "inside",
) -> Any:
    """Scale centred values by their deviation, then by gamma, and add beta.

    ::

        inside:    a = 1 / sqrt(variance + epsilon)
        outside:   a = 1 / (sqrt(variance) + epsilon)

        y = gamma * a * centred + beta

    Args:
        centred: x - mean.
        variance: broadcasts to `centred`.
        epsilon: added under the root ("inside") or to the root ("outside").
        gamma: gain of the rank of `centred` that broadcasts to it, or None for 1.
        beta: bias of the rank of `centred` that broadcasts to it, or None for 0.
        epsilon_placement: "inside" or "outside".
    """

    def function(centred: Any, variance: Any, gamma: Any, beta: Any) -> tuple[Any, Gradient]:
        if epsilon_placement == "inside":
            a = ops.rsqrt(variance + epsilon)
        else:
            # The root's slope at 0 is infinite; a constant row (padding) would get a NaN gradient.
            positive = variance > 0
            root = ops.sqrt(ops.where(positive, variance, 1.0))
            a = 1.0 / (ops.where(positive, root, 0.0) + epsilon)

        def gradient(dy: Any) -> list[Any]:
            if epsilon_placement == "inside":
                slope = -0.5 * a * a * a
            else:
                slope = ops.where(positive, -0.5 * a * a / root, 0.0)
            d_beta = None if beta is None else total(dy, broadcast_axes(dy, beta))
            d_a, d_gamma = _scale_gradients(dy * centred, a, gamma)
            return [_scale(dy, a, gamma), d_a * slope, d_gamma, d_beta]

        y = _scale(centred, a, gamma)
        return (y if beta is None else y + beta), gradient

    rank = len(centred.shape)
    variance = ops.reshape(variance, [1] * (rank - len(variance.shape)) + list(ops.shape(variance)))
    gamma, beta = (None if w is None else ops.cast(w, centred.dtype) for w in (gamma, beta))
    return with_gradient(function, centred, variance, gamma, beta)


def _scale(x: Any, a: Any, gamma: Any) -> Any:
    """Compute gamma * a * x in as few passes over the size of x as can be."""
    if gamma is None:
        return x * a
    return x * (a * gamma) if _common_axes(x, a, gamma) else x * a * gamma


def _scale_gradients(p: Any, a: Any, gamma: Any) -> tuple[Any, Any]:
    """Gradients of a and gamma in sum(gamma * a * p)."""
    if gamma is None:
        return total(p, broadcast_axes(p, a)), None
    p = total(p, _common_axes(p, a, gamma))
    return total(p, broadcast_axes(p, a), gamma), total(p, broadcast_axes(p, gamma), a)


def _common_axes(x: Any, a: Any, gamma: Any) -> list[int]:
    """Axes along which both a and gamma are broadcast to x."""
    return sorted(set(broadcast_axes(x, a)) & set(broadcast_axes(x, gamma)))
