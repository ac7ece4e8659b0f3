"""Layer that divides each sample by its standard deviation, without centering."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_norm.layers.normalization import AffineNormalization, FeatureNormalization
from keras_norm.ops.moments import moments
from keras_norm.ops.normalize import normalize
from keras_norm.typing import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_norm")
class VarianceNormalization(FeatureNormalization, AffineNormalization):
    """Divide each sample by the standard deviation of its features, without centering.

    ::

        y = gamma * x / sqrt(var(x) + epsilon) + beta

    As in the paper, the layer has neither gamma nor beta by default.

    Args:
        axis: axis or axes to normalize over; gamma and beta have their shape.
        epsilon: number added to the variance.
        center: whether the layer has a beta.
        scale: whether the layer has a gamma.
        **kwargs: `beta_initializer`, `gamma_initializer`, `beta_regularizer`, `gamma_regularizer`,
            `beta_constraint`, `gamma_constraint`, and `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: floating tensor of any rank. The layer passes its mask on.

    Raises:
        TypeError: the inputs are integers, an axis is not an integer, or an argument is unknown.
        ValueError: an axis is out of range or occurs twice; epsilon is negative.

    Example:
        >>> VarianceNormalization(epsilon=0.0)(np.array([[1.0, 2.0, 3.0]])).numpy().round(4)
        array([[1.2247, 2.4495, 3.6742]], dtype=float32)

    Reference:
        Wang et al., "Correct Normalization Matters: Understanding the Effect of Normalization on
        Deep Neural Network Models for Click-Through Rate Prediction" (2020), arXiv 2006.12753,
        section 3 (VO-LN).
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 1e-3,
        center: bool = False,
        scale: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(axis=axis, epsilon=epsilon, center=center, scale=scale, **kwargs)

    def build(self, input_shape: Shape) -> None:
        """Create gamma if `scale` is True, and beta if `center` is True."""
        super().build(input_shape)
        self.add_affine_weights(self._shape)

    def normalize(self, x: Tensor, axes: list[int]) -> Tensor:
        """Divide `x` by its standard deviation over `axes`; apply gamma and beta."""
        variance = moments(x, axes).variance
        affine = self.affine_weights(len(x.shape), axes)
        y = normalize(ops.cast(x, variance.dtype), variance, self.epsilon, *affine)
        return ops.cast(y, self.compute_dtype)
