"""Base classes of the normalization layers."""

import numbers
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import keras
from keras import constraints, initializers, ops, regularizers

from keras_norm.layers.arguments import DeclaredArguments
from keras_norm.layers.inputs import (
    as_axis,
    canonical_axes,
    feature_sizes,
    require_floating,
    with_features,
)
from keras_norm.typing import Config, Serializable, Shape, Tensor


class Affine(NamedTuple):
    """The weights gamma and beta of a layer; None for a weight that the layer does not have."""

    gamma: Tensor | None
    beta: Tensor | None


class Normalization(DeclaredArguments):
    """Base class of all normalization layers.

    The layer passes masks on. It does not cast its inputs, so statistics are computed before a
    mixed precision policy rounds the values.

    Args:
        epsilon: number added to the divisor, so that it is not 0.
        **kwargs: `name`, `dtype`, `trainable` of every Keras layer.

    Attributes:
        KERAS_CLASS: the layer of Keras that `keras_norm.convert` replaces by this class; or None.
        KERAS_OPTIONS: values of the arguments that the Keras layer does not have, with which both
            layers compute the same.
        reads_single_timesteps: whether the outputs at a timestep depend only on the inputs at this
            timestep, if the layer does not normalize over time. The exporters test the single-step
            model of any other layer on a long sequence too.

    Raises:
        ValueError: epsilon is not a number, or is negative.
    """

    KERAS_CLASS: ClassVar[type[keras.layers.Layer] | None] = None
    KERAS_OPTIONS: ClassVar[Config] = {}
    reads_single_timesteps: ClassVar = True
    supports_masking: bool

    def __init__(self, *, epsilon: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(epsilon, numbers.Real) or isinstance(epsilon, bool) or epsilon < 0:
            raise ValueError(
                f"epsilon must be a number of 0 or more. Received: epsilon={epsilon!r}."
            )
        self.epsilon: float = epsilon
        self.supports_masking = True
        self.autocast = False

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Return the output shape, which equals the input shape."""
        return input_shape

    def require_recurrence_options(self) -> None:
        """Raise a ValueError if the layer has an option that a recurrence does not support."""


class FeatureNormalization(Normalization):
    """Base class of the layers that normalize each sample over one or more axes.

    A subclass implements `normalize`. A tf.RaggedTensor is normalized over axes of its dense
    values, which are its last axes.
    """

    def __init__(self, *, axis: int | Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = as_axis(axis)

    def build(self, input_shape: Shape) -> None:
        """Store the sizes of the normalized axes; `call` raises an error for other sizes."""
        self._shape = feature_sizes(self.axis, input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        """Normalize `inputs`, a tensor or a RaggedTensor, over the axes of the layer."""
        require_floating(inputs, self)
        if not hasattr(inputs, "flat_values"):
            return self.normalize(*with_features(inputs, self.axis, self._shape))
        values, shape = inputs.flat_values, inputs.shape
        axes = [a - len(shape) for a in canonical_axes(self.axis, shape)]
        if axes[0] <= -len(values.shape):
            raise ValueError(
                "A RaggedTensor can be normalized only over axes of its flat_values. Received "
                f"axis={self.axis} for inputs of shape {tuple(shape)}. Convert the inputs "
                "to a dense tensor, and mask the padding."
            )
        return inputs.with_flat_values(self.normalize(*with_features(values, axes, self._shape)))

    def normalize(self, x: Tensor, axes: list[int]) -> Tensor:
        """Normalize the floating-point tensor `x` over `axes`, numbered from 0 to rank - 1."""
        raise NotImplementedError


class AffineNormalization(Normalization):
    """Base class of the layers with a gamma and a beta: y = gamma * normalized + beta.

    `BatchNormalization` documents the arguments and the errors.
    """

    gamma: keras.Variable | None
    beta: keras.Variable | None

    def __init__(
        self,
        *,
        epsilon: float,
        center: bool,
        scale: bool,
        beta_initializer: Serializable = "zeros",
        gamma_initializer: Serializable = "ones",
        beta_regularizer: Serializable = None,
        gamma_regularizer: Serializable = None,
        beta_constraint: Serializable = None,
        gamma_constraint: Serializable = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(epsilon=epsilon, **kwargs)
        self.center = center
        self.scale = scale
        self.beta_initializer = initializers.get(beta_initializer)
        self.gamma_initializer = initializers.get(gamma_initializer)
        self.beta_regularizer = regularizers.get(beta_regularizer)
        self.gamma_regularizer = regularizers.get(gamma_regularizer)
        self.beta_constraint = constraints.get(beta_constraint)
        self.gamma_constraint = constraints.get(gamma_constraint)
        self.gamma = None
        self.beta = None

    def add_affine_weights(self, shape: Sequence[int]) -> None:
        """Create gamma if `scale` is True, and beta if `center` is True."""
        for name, wanted in (("gamma", self.scale), ("beta", self.center)):
            if wanted:
                options = ("initializer", "regularizer", "constraint")
                values = {option: getattr(self, f"{name}_{option}") for option in options}
                setattr(self, name, self.add_weight(shape, name=name, autocast=False, **values))

    def affine_weights(self, rank: int, axes: Sequence[int]) -> Affine:
        """Return gamma and beta, reshaped to broadcast to a tensor of rank `rank`.

        `axes` are the positions of the feature axes in the tensor.
        """
        gamma, beta = (
            None if weight is None else reshape_to_broadcast(weight, rank, axes)
            for weight in (self.gamma, self.beta)
        )
        return Affine(gamma, beta)


def reshape_to_broadcast(weight: Tensor, rank: int, axes: Sequence[int]) -> Tensor:
    """Reshape a weight, such as gamma, to broadcast to a tensor of rank `rank`.

    The result has the dimensions of the weight at `axes`, and size 1 at all other axes.
    """
    sizes = dict(zip(axes, weight.shape, strict=True))
    return ops.reshape(weight, [sizes.get(axis, 1) for axis in range(rank)])
