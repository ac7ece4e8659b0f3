"""Layer normalization."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_norm.layers.affine import AffineNormalization, FeatureNormalization
from keras_norm.ops.moments import moments
from keras_norm.ops.normalize import normalize


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormalization(FeatureNormalization, AffineNormalization):
    """Normalize each sample over its features.

    ::

        y = gamma * (x - mean) / sqrt(var + epsilon) + beta          "inside"
        y = gamma * (x - mean) / (sqrt(var) + epsilon) + beta        "outside"
        y = gamma * x / sqrt(var + epsilon)                          rms_scaling

    with mean and var over `axis`, and var = sum((x - mean)^2) / (n - ddof). The defaults are those
    of `keras.layers.LayerNormalization`; `epsilon_placement="outside", ddof=1` is the form of
    "The Annotated Transformer".

    Args:
        axis: axis or axes to normalize over; gamma and beta have their shape.
        epsilon: number added to the variance ("inside") or to the deviation ("outside").
        center: whether there is a beta.
        scale: whether there is a gamma.
        epsilon_placement: "inside" or "outside" of the root.
        ddof: 0 for the biased variance, 1 for the unbiased one.
        rms_scaling: do not centre the output, whatever `center` and `scale` say: what Keras calls
            so, and has deprecated, as `RMSNormalization` divides by another number.
        **kwargs: `beta_initializer`, `gamma_initializer`, `beta_regularizer`, `gamma_regularizer`,
            `beta_constraint`, `gamma_constraint`, and `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: floating tensor of any rank; a mask passes through.

    Raises:
        TypeError: an integer input, an axis that is no integer, or an unknown argument.
        ValueError: an axis out of range or named twice; another `epsilon_placement` or `ddof`; no
            more than `ddof` features.

    Example:
    >>> layer = LayerNormalization(epsilon=1e-5)
    >>> layer(np.array([[1.0, 2.0, 3.0]])).numpy().round(4)
    array([[-1.2247,  0.    ,  1.2247]], dtype=float32)

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, section 3, eq. 3-4.
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        *,
        epsilon_placement: str = "inside",
        ddof: int = 0,
        rms_scaling: bool = False,
        **kwargs: Any,
    ) -> None:
        center, scale = center and not rms_scaling, scale or rms_scaling
        super().__init__(axis=axis, epsilon=epsilon, center=center, scale=scale, **kwargs)
        if epsilon_placement not in ("inside", "outside"):
            raise ValueError(
                "epsilon_placement must be 'inside' or 'outside' (of the root). "
                f"Received: epsilon_placement={epsilon_placement!r}."
            )
        if ddof not in (0, 1):
            raise ValueError(f"ddof must be 0 or 1. Received: ddof={ddof!r}.")
        self.epsilon_placement = epsilon_placement
        self.ddof = ddof
        self.rms_scaling = rms_scaling

    def build(self, input_shape: Any) -> None:
        """Create gamma and beta over the normalized axes."""
        super().build(input_shape)
        if math.prod(self._shape) <= self.ddof:
            raise ValueError(
                f"ddof={self.ddof} needs more than {self.ddof} features. Received inputs of shape "
                f"{tuple(input_shape)} with axis={self.axis}."
            )
        self.add_affine_weights(self._shape)

    def normalize(self, x: Any, axes: list[int]) -> Any:
        """Normalize `x`."""
        m = moments(x, axes)
        n = math.prod(self._shape)
        y = normalize(
            ops.cast(x, m.variance.dtype) if self.rms_scaling else m.centred,
            m.variance * (n / (n - self.ddof)),
            self.epsilon,
            epsilon_placement=self.epsilon_placement,
            **self.affine_weights(len(x.shape), axes),
        )
        return ops.cast(y, self.compute_dtype)
