"""What every runner is: a function from named arrays to named arrays."""

import abc
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from keras_norm.export import signature
from keras_norm.export.compare.element_differences import in_range
from keras_norm.export.errors import TextError
from keras_norm.export.signature import TensorSpec

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]


class Runner(abc.ABC):
    """A function from named arrays to named arrays, and a context manager that closes it.

    Attributes:
        name: short, for reports.
        path: the file or folder it runs, or None for a model in memory.
        inputs: name -> `TensorSpec`.
    """

    name: str
    path: pathlib.Path | None
    inputs: dict[str, TensorSpec]

    def __call__(self, inputs: Mapping[str, Any]) -> Arrays:
        """Run once, in inference mode.

        Args:
            inputs: name -> array, for every name in `self.inputs`. A type that differs is
                converted where no value changes its meaning (int64 to int32, float64 to float32,
                int to float).

        Returns:
            Output name -> array; bfloat16 comes as float32.

        Raises:
            ValueError: an input is missing, unknown, or has the wrong shape or type.
            RunnerError: the artefact failed to run.
        """
        return self._run(fitted(inputs, self.inputs, self.name))

    @abc.abstractmethod
    def _run(self, inputs: Arrays) -> Arrays:
        """Run on arrays that fit `self.inputs`."""

    def ops(self) -> dict[str, list[str]]:
        """Operation -> where it stands (nodes of the graph, tensors of the file)."""
        return {}

    def signatures(self) -> list[str]:
        """Names of the signatures that the artefact has."""
        return []

    @abc.abstractmethod
    def close(self) -> None:
        """Release what the runner holds. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def fitted(inputs: Mapping[str, Any], specs: Mapping[str, TensorSpec], who: str) -> Arrays:
    """The arrays in the types that they are asked for in.

    Args:
        inputs: name -> array.
        specs: what is asked for.
        who: what asks, for the message.

    Raises:
        ValueError: an array is missing, unknown, or has the wrong shape or type.
    """
    signature.require_names(inputs, list(specs), who)
    return {name: _fitted(inputs[name], spec) for name, spec in specs.items()}


def _fitted(data: Any, spec: TensorSpec) -> np.ndarray:
    """Check an array's shape, and convert its type where that loses no meaning."""
    try:
        array = np.asarray(data)
    except ValueError:  # nested lists of different lengths
        raise ValueError(
            f'input "{spec.name}" takes an array; received a {type(data).__name__} that is none'
        ) from None
    if spec.dtype == "string":
        raise TextError(f'input "{spec.name}" takes text; the runners pass numbers only')
    wanted = spec.shape
    if array.ndim != len(wanted) or any(
        w not in (None, n) for w, n in zip(wanted, array.shape, strict=True)
    ):
        shape = ", ".join("any" if size is None else str(size) for size in wanted)
        raise ValueError(f'input "{spec.name}" has the shape ({shape}); received {array.shape}')
    dtype = np.dtype("float32" if spec.dtype == "bfloat16" else spec.dtype)
    if not (np.can_cast(array.dtype, dtype, "same_kind") and in_range(array, dtype)):
        raise ValueError(
            f'input "{spec.name}" has the type {spec.dtype}; received {array.dtype} values that '
            "it cannot hold"
        )
    return np.asarray(array, dtype)
