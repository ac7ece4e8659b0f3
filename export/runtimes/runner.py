"""The base class of runners, which run an artifact or a model on arrays by input name."""

import abc
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Self, TypeAlias

from keras_norm.export import signature
from keras_norm.export.compare.arrays import convert_input
from keras_norm.export.input_names import TensorSpec, with_file_names
from keras_norm.typing import Arrays, TensorLike

Run: TypeAlias = Callable[[Arrays], Arrays]


class Runner(abc.ABC):
    """Run an artifact or a model on arrays by input name, and return arrays by output name.

    Attributes:
        name: short name of the runner, for reports.
        path: the file or folder that the runner runs, or None for a model in memory.
        inputs: input name -> `TensorSpec`.
        arena: bytes of the memory arena of TensorFlow Lite Micro; None for any other runtime.
    """

    name: str
    path: pathlib.Path | None
    inputs: dict[str, TensorSpec]
    arena: int | None = None

    def __call__(self, inputs: Mapping[str, TensorLike]) -> Arrays:
        """Run the artifact once, in inference mode.

        Args:
            inputs: name -> array, for every name in `self.inputs`. The runner converts an array of
                another type if the conversion is safe (int64 to int32, float64 to float32, int to
                float, str to bytes in UTF-8).

        Returns:
            Output name -> array. A bfloat16 output is returned as float32, a text output as an
            array of bytes.

        Raises:
            ValueError: an input is missing, unknown, or has the wrong shape or type.
            RunnerError: the artifact failed to run.
        """
        return self._run(convert_inputs(inputs, self.inputs, self.name))

    @abc.abstractmethod
    def _run(self, inputs: Arrays) -> Arrays:
        """Run the artifact on arrays of the shapes and types in `self.inputs`."""

    def ops(self) -> dict[str, list[str]]:
        """Return the artifact's operations: operation -> names of its nodes or output tensors."""
        return {}

    def signatures(self) -> list[str]:
        """Return the names of the artifact's signatures."""
        return []

    def variable_digests(self) -> dict[str, str]:
        """Return a hash of each variable's value by name; {} if the runtime hides its variables."""
        return {}

    def seconds(self) -> float | None:
        """Return the seconds of the last run, or None if the runner does not measure them."""
        return None

    def run_at_once(
        self, cases: Sequence[Mapping[str, TensorLike]], threads: int, seconds: float
    ) -> tuple[int, list[Arrays], list[Arrays]] | None:
        """Run the artifact from many threads at once, as a server does.

        The arguments and the result are as for `worker_protocol.Worker.run_at_once`. The result is
        None if the runtime runs one call at a time.
        """
        return None

    def close(self) -> None:  # noqa: B027
        """Release the runner's resources, if it has any. A second call has no effect."""

    def __repr__(self) -> str:
        path = "" if self.path is None else f" of {str(self.path)!r}"
        return f"<{self.name} runner{path}, inputs: {signature.describe(self.inputs)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def convert_inputs(
    inputs: Mapping[str, TensorLike], specs: Mapping[str, TensorSpec], who: str
) -> Arrays:
    """Check the inputs against their specs, and convert them to the required types.

    Args:
        inputs: name -> array. The names may also be the names in a Keras model, such as "Text in".
        specs: input name -> the required shape and type.
        who: name of the model or runner that takes the inputs, for messages.

    Raises:
        ValueError: an array is missing, unknown, or has the wrong shape or type.
    """
    if isinstance(inputs, Mapping):
        inputs = with_file_names(inputs, specs)
    signature.require_names(inputs, list(specs), who)
    return {name: convert_input(inputs[name], spec) for name, spec in specs.items()}


def name_and_inputs(function: Callable[..., object]) -> tuple[str, dict[str, TensorSpec]]:
    """Return the name of a user's function, and the specs in its attribute `inputs`, if any."""
    name = getattr(function, "name", None) or getattr(function, "__name__", "")
    inputs = getattr(function, "inputs", None)
    return str(name or type(function).__name__), dict(inputs) if isinstance(inputs, Mapping) else {}
