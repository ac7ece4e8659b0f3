"""Layer normalization layer with a bias that is added before the norm."""

import keras
from keras import ops

from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.normalization import reshape_to_broadcast
from keras_norm.typing import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_norm")
class BiasedLayerNormalization(LayerNormalization):
    """Add a trainable bias to the inputs, and apply layer normalization to the result.

    ::

        y = LayerNormalization(x + bias)

    This is the norm of W x in the code of the paper "Layer Normalization", which
    `load_kiros_weights` loads. A cell with this norm trains on the uncompiled path.

    Args:
        *args: arguments of `LayerNormalization`, in their order.
        **kwargs: arguments of `LayerNormalization`.

    Call arguments:
        inputs: floating tensor of any rank. The layer passes its mask on.

    Weights:
        gamma, beta and bias, with the shape of the normalized axes. The initial bias is zero.

    Raises:
        TypeError: the inputs are integers, an axis is not an integer, or an argument is unknown.
        ValueError: as for `LayerNormalization`.

    Example:
        >>> layer = BiasedLayerNormalization(epsilon=1e-5)
        >>> layer(np.array([[1.0, 2.0, 3.0]])).numpy().round(4)
        array([[-1.2247,  0.    ,  1.2247]], dtype=float32)

    Reference:
        github.com/ryankiros/layer-norm, `lngru_layer` in layers.py: ln(x W + b).
    """

    def build(self, input_shape: Shape) -> None:
        """Create gamma, beta and the bias."""
        super().build(input_shape)
        self.bias = self.add_weight(self._shape, "zeros", autocast=False, name="bias")

    def normalize(self, x: Tensor, axes: list[int]) -> Tensor:
        """Normalize x + bias over `axes`."""
        bias = reshape_to_broadcast(self.bias, len(x.shape), axes)
        dtype = keras.backend.result_type(x.dtype, bias.dtype)
        return super().normalize(ops.cast(x, dtype) + ops.cast(bias, dtype), axes)
