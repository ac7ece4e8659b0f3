"""Layer normalization layer, which normalizes each sample over its features."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from keras_norm.layers.normalization import AffineNormalization, FeatureNormalization
from keras_norm.ops.moments import moments
from keras_norm.ops.normalize import normalize
from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.typing import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormalization(FeatureNormalization, AffineNormalization):
    """Normalize each sample over its features.

    ::

        y = gamma * (x - mean) / sqrt(var + epsilon) + beta          "inside"
        y = gamma * (x - mean) / (sqrt(var) + epsilon) + beta        "outside"
        y = gamma * x / sqrt(var + epsilon)                          rms_scaling

    with mean and var over `axis`, and var = sum((x - mean)^2) / (n - ddof). The default values
    equal the defaults of `keras.layers.LayerNormalization`. `epsilon_placement="outside", ddof=1`
    gives the equation of "The Annotated Transformer".

    Args:
        axis: axis or axes to normalize over; gamma and beta have their shape.
        epsilon: number added to the variance ("inside") or to the deviation ("outside").
        center: whether the layer has a beta.
        scale: whether the layer has a gamma.
        epsilon_placement: "inside" or "outside" the square root.
        ddof: 0 for the biased variance, 1 for the unbiased variance.
        rms_scaling: multiply x, not x - mean, by gamma / sqrt(var + epsilon), without beta:
            `center` and `scale` are ignored. Keras has deprecated this argument. It is not
            `RMSNormalization`, which divides by the root mean square.
        **kwargs: `beta_initializer`, `gamma_initializer`, `beta_regularizer`, `gamma_regularizer`,
            `beta_constraint`, `gamma_constraint`, and `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: floating tensor of any rank. The layer passes its mask on.

    Raises:
        TypeError: the inputs are integers, an axis is not an integer, or an argument is unknown.
        ValueError: an axis is out of range or occurs twice; `epsilon_placement` or `ddof` has
            another value; there are too few features for `ddof`.

    Example:
        >>> layer = LayerNormalization(epsilon=1e-5)
        >>> layer(np.array([[1.0, 2.0, 3.0]])).numpy().round(4)
        array([[-1.2247,  0.    ,  1.2247]], dtype=float32)

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, section 3, eq. 3-4.
    """

    KERAS_CLASS: ClassVar = keras.layers.LayerNormalization
    KERAS_OPTIONS: ClassVar = {"epsilon_placement": "inside", "ddof": 0}

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
                "epsilon_placement must be 'inside' or 'outside' (the square root). "
                f"Received: epsilon_placement={epsilon_placement!r}."
            )
        if ddof not in (0, 1):
            raise ValueError(
                "ddof must be 0 (biased variance) or 1 (unbiased variance). "
                f"Received: ddof={ddof!r}."
            )
        self.epsilon_placement = epsilon_placement
        self.ddof = ddof
        self.rms_scaling = rms_scaling

    def build(self, input_shape: Shape) -> None:
        """Create gamma and beta, which have the sizes of the normalized axes."""
        super().build(input_shape)
        if math.prod(self._shape) <= self.ddof:
            raise ValueError(
                f"ddof={self.ddof} needs at least {self.ddof + 1} features. Received inputs of "
                f"shape {tuple(input_shape)} with axis={self.axis}. Use ddof=0, or more features."
            )
        self.add_affine_weights(self._shape)

    def require_recurrence_options(self) -> None:
        """Raise a ValueError for rms_scaling=True, which a recurrence does not support."""
        if self.rms_scaling:
            raise ValueError(
                "A recurrent layer does not support LayerNormalization(rms_scaling=True). Use "
                "keras_norm.VarianceNormalization(scale=True), which computes the same function."
            )

    def step_norm(self, training: bool) -> SampleNorm:
        """Return the norm as pure functions, which a recurrence applies at each timestep."""
        outside = self.epsilon_placement == "outside"
        return SampleNorm(True, self.epsilon, self.ddof, outside)

    def normalize(self, x: Tensor, axes: list[int]) -> Tensor:
        """Apply layer normalization to `x` over `axes`."""
        m = moments(x, axes)
        n = math.prod(self._shape)
        y = normalize(
            ops.cast(x, m.variance.dtype) if self.rms_scaling else m.centered,
            m.variance * (n / (n - self.ddof)),
            self.epsilon,
            *self.affine_weights(len(x.shape), axes),
            epsilon_placement=self.epsilon_placement,
        )
        return ops.cast(y, self.compute_dtype)
