"""Create kernels and biases with `units` columns per gate, also in half precision."""

from functools import partial
from typing import Any, ClassVar

import keras
from keras import ops

from keras_norm.ops.moments import statistics_dtype
from keras_norm.typing import Serializable, Shape, Tensor

# Weights of a Keras cell that have columns for each gate.
GATED = ("kernel", "recurrent_kernel", "bias")


class KernelWeights(keras.Layer):
    """Mixin of cells that creates kernels and bias with `units` columns for each gate in `GATES`.

    The recurrent kernel has as many rows as the output, which is the first state.

    An orthogonal initial value is computed in float32 and cast: TensorFlow and JAX have no QR
    decomposition of bfloat16, and JAX has none of float16.
    """

    GATES: ClassVar[tuple[str, ...]] = ()
    units: int
    recurrent_state_sizes: list[int]

    def add_weight(
        self,
        shape: Shape | None = None,
        initializer: Serializable = None,
        dtype: str | None = None,
        **kwargs: Any,
    ) -> keras.Variable:
        """Create a weight of the cell; kernels and bias get `units` columns for each gate."""
        name = kwargs.get("name")
        if shape is not None and self.GATES and name in GATED:
            rows = self.recurrent_state_sizes[:1] if name == "recurrent_kernel" else shape[:-1]
            shape = (*rows, len(self.GATES) * self.units)
        if isinstance(initializer, keras.initializers.Orthogonal):
            initializer = partial(_initialize_in_float32, initializer)
        return super().add_weight(shape, initializer, dtype, **kwargs)


def _initialize_in_float32(
    initializer: keras.initializers.Initializer, shape: Shape, dtype: str
) -> Tensor:
    return ops.cast(initializer(shape, statistics_dtype(dtype)), dtype)
