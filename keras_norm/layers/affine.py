"""What the normalization layers share, and those of them with a gamma and a beta."""

import numbers
from collections.abc import Sequence
from typing import Any

from keras import constraints, initializers, ops, regularizers

from keras_norm.layers.arguments import DeclaredArguments
from keras_norm.layers.inputs import (
    as_axis,
    canonical_axes,
    feature_sizes,
    require_floating,
    with_features,
)


class Normalization(DeclaredArguments):
    """Base of the layers that normalize.

    It passes masks on, and leaves its inputs in their own dtype, so that statistics are taken
    before a mixed precision policy has rounded them.

    Args:
        epsilon: number added to what is divided by.
        **kwargs: `name`, `dtype`, `trainable` of every Keras layer.

    Raises:
        ValueError: an epsilon that is no number, or negative.
    """

    def __init__(self, *, epsilon: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(epsilon, numbers.Real) or isinstance(epsilon, bool) or epsilon < 0:
            raise ValueError(
                f"epsilon must be a number, and not negative. Received: epsilon={epsilon!r}."
            )
        self.epsilon: float = epsilon
        self.supports_masking = True
        self.autocast = False

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The input's own shape."""
        return input_shape


class FeatureNormalization(Normalization):
    """Base of the layers that normalize each sample over an axis or several.

    A subclass gives `normalize`, of a floating tensor over given axes. Of a tf.RaggedTensor the
    values are normalized, whose axes are its last ones.
    """

    def __init__(self, *, axis: int | Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = as_axis(axis)

    def build(self, input_shape: Any) -> None:
        """Find the sizes of the axes, which `call` holds its inputs to."""
        self._shape = feature_sizes(self.axis, input_shape)

    def call(self, inputs: Any) -> Any:
        """Normalize `inputs`."""
        require_floating(inputs, self)
        if not hasattr(inputs, "flat_values"):
            return self.normalize(*with_features(inputs, self.axis, self._shape))
        values, shape = inputs.flat_values, inputs.shape
        axes = [a - len(shape) for a in canonical_axes(self.axis, shape)]
        if axes[0] <= -len(values.shape):
            raise ValueError(
                "A RaggedTensor is normalized over axes within its values. Received "
                f"axis={self.axis} for inputs of shape {tuple(shape)}: make them dense, and mask "
                "the padding."
            )
        return inputs.with_flat_values(self.normalize(*with_features(values, axes, self._shape)))

    def normalize(self, x: Any, axes: list[int]) -> Any:
        """Normalize `x` over `axes`, each in [0, rank)."""
        raise NotImplementedError


class AffineNormalization(Normalization):
    """Base of the layers that end in gamma * x + beta: it owns these and their arguments.

    Arguments, and what is raised, are those of `BatchNormalization`.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        center: bool,
        scale: bool,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
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
        self.gamma: Any = None
        self.beta: Any = None

    def add_affine_weights(self, shape: Sequence[int]) -> None:
        """Create gamma and beta, each where it is asked for."""
        for name, wanted in (("gamma", self.scale), ("beta", self.center)):
            if wanted:
                parts = ("initializer", "regularizer", "constraint")
                own = {part: getattr(self, f"{name}_{part}") for part in parts}
                setattr(self, name, self.add_weight(shape, name=name, autocast=False, **own))

    def affine_weights(self, rank: int, axes: Sequence[int]) -> dict[str, Any]:
        """Gamma and beta, shaped to broadcast to a tensor of `rank` with features at `axes`."""
        weights = {"gamma": self.gamma, "beta": self.beta}
        return {n: None if w is None else broadcastable(w, rank, axes) for n, w in weights.items()}


def broadcastable(weight: Any, rank: int, axes: Sequence[int]) -> Any:
    """A weight over `axes`, shaped to broadcast to a tensor of `rank`."""
    sizes = dict(zip(axes, weight.shape, strict=True))
    return ops.reshape(weight, [sizes.get(axis, 1) for axis in range(rank)])
