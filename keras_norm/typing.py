"""Type aliases of the whole project.

Keras and TensorFlow have no type stubs, so a type checker sees their values as `Any`. These aliases
say what such a value is.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy.typing as npt

# A tensor or a variable of the backend.
Tensor: TypeAlias = Any
# Tensors in a flat list, for example the states of a cell.
Tensors: TypeAlias = list[Tensor]
# A NumPy array of any dtype and shape.
Array: TypeAlias = npt.NDArray[Any]
# NumPy arrays by the name of an input or an output.
Arrays: TypeAlias = dict[str, Array]
# The step of a scan: (carry, xs at timestep t) -> (new carry, ys at timestep t).
ScanStep: TypeAlias = Callable[[Tensors, Tensors], tuple[Tensors, Tensors]]
# A value that Keras or NumPy converts to a tensor: a number, nested lists, an array or a tensor.
TensorLike: TypeAlias = Any
# Tensors in nested lists, tuples and dicts.
Nest: TypeAlias = Any
# The shape of a tensor: an int for a static dimension, None for a dynamic dimension.
Shape: TypeAlias = tuple[int | None, ...]
# The configuration of a Keras object, as `get_config` returns it.
Config: TypeAlias = dict[str, Any]
# A regularizer, initializer, constraint or activation: an object, its name or its configuration;
# None for the default.
Serializable: TypeAlias = str | Config | Callable[..., Tensor] | None
# A value that JSON can store.
Json: TypeAlias = Any
