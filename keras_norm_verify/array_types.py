"""Type aliases of the verifier, which needs NumPy only."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = dict[str, Array]
# A value that JSON can store.
Json: TypeAlias = Any
# Function that runs an artifact: (signature's name, inputs by name) -> outputs by name.
RunSignature: TypeAlias = Callable[[str, Arrays], Mapping[str, Array]]
