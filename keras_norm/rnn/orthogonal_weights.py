"""Initialize orthogonal weights of cells whose variables are half precision."""

from functools import partial
from typing import Any

import keras
from keras import ops

from keras_norm.ops.moments import statistics_dtype
from keras_norm.typing import Serializable, Shape, Tensor


class OrthogonalWeights(keras.Layer):
    """Mixin of cells: compute an orthogonal initial value in float32, and cast it.

    TensorFlow and JAX have no QR decomposition of bfloat16, and JAX has none of float16.
    """

    def add_weight(
        self,
        shape: Shape | None = None,
        initializer: Serializable = None,
        dtype: str | None = None,
        **kwargs: Any,
    ) -> keras.Variable:
        """Create a weight of the cell."""
        if isinstance(initializer, keras.initializers.Orthogonal):
            initializer = partial(_initialize_in_float32, initializer)
        return super().add_weight(shape, initializer, dtype, **kwargs)


def _initialize_in_float32(
    initializer: keras.initializers.Initializer, shape: Shape, dtype: str
) -> Tensor:
    return ops.cast(initializer(shape, statistics_dtype(dtype)), dtype)
