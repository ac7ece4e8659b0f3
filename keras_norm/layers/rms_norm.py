"""RMS normalization layer, which divides each sample by its root mean square."""

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from keras_norm.layers.normalization import FeatureNormalization, reshape_to_broadcast
from keras_norm.ops.moments import mean_square, statistics_dtype
from keras_norm.ops.normalize import normalize
from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.typing import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_norm")
class RMSNormalization(FeatureNormalization):
    """Divide each sample by the root mean square of its features.

    ::

        y = scale * x / sqrt(mean(x^2) + epsilon)

    The layer takes the arguments, the defaults and the weight of `keras.layers.RMSNormalization`.
    Unlike Keras' layer, it passes its mask on, and does not overflow in float16.

    Args:
        axis: axis or axes to normalize over; `scale` has their shape.
        epsilon: number added to the mean square.
        supports_masking: whether the layer passes its mask on. Keras' layer does not: later layers
            then treat masked timesteps as all others.
        **kwargs: `name`, `dtype`, `trainable` of every Keras layer.

    Call arguments:
        inputs: floating tensor of any rank.

    Raises:
        TypeError: the inputs are integers, an axis is not an integer, or an argument is unknown.
        ValueError: an axis is out of range or occurs twice; epsilon is negative.

    Example:
        >>> RMSNormalization()(np.array([[3.0, 4.0]])).numpy().round(4)
        array([[0.8485, 1.1314]], dtype=float32)

    Reference:
        Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019), arXiv 1910.07467, eq. 4.
    """

    KERAS_CLASS: ClassVar = keras.layers.RMSNormalization

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 1e-6,
        *,
        supports_masking: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(axis=axis, epsilon=epsilon, **kwargs)
        self.supports_masking = supports_masking

    def build(self, input_shape: Shape) -> None:
        """Create the weight `scale`, which has the sizes of the normalized axes."""
        super().build(input_shape)
        self.scale = self.add_weight(self._shape, "ones", autocast=False, name="scale")

    @property
    def gamma(self) -> keras.Variable:
        """The weight `scale`, which other norms name gamma."""
        return self.scale

    def step_norm(self, training: bool) -> SampleNorm:
        """Return the norm as pure functions, which a recurrence applies at each timestep."""
        return SampleNorm(False, self.epsilon)

    def normalize(self, x: Tensor, axes: list[int]) -> Tensor:
        """Divide `x` by its root mean square over `axes`, and multiply by gamma."""
        x = ops.cast(x, statistics_dtype(x.dtype))
        gamma = reshape_to_broadcast(self.scale, len(x.shape), axes)
        y = normalize(x, mean_square(x, axes), self.epsilon, gamma=gamma)
        return ops.cast(y, self.compute_dtype)
