"""The golden cases of an artifact: inputs, and the outputs that the artifact must compute."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from keras_norm_verify.printable import MAX_PRINTED, printable
from keras_norm_verify.run_over_time import Array, Arrays, run_over_time

# Function that runs an artifact: (signature's name, inputs by name) -> outputs by name.
RunSignature: TypeAlias = Callable[[str, Arrays], Mapping[str, Array]]


class GoldenCasesError(ValueError):
    """The golden cases are missing or unusable, or the runtime of the artifact is missing.

    Args:
        message: one line. Escape sequences of terminals, in names of a file, become escapes.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, MAX_PRINTED))


@dataclasses.dataclass(frozen=True, repr=False)
class GoldenCase:
    """One test of an artifact: inputs and expected outputs of one call, or of a call per timestep.

    Calls for all timesteps, one after the other, are a stream. Each call after the first gets the
    states that the previous call returned.

    Attributes:
        name: text such as "batch 3, length 7, padded left".
        signature: name of the signature to call.
        inputs: arrays by name, texts as bytes. The sequences of a stream have the shape (batch,
            time, ...).
        expected: expected outputs by name.
        atol: absolute tolerance of each expected output, by name. Texts must be equal.
        sequences: names of the inputs of a stream that are passed one timestep at a time; empty for
            a single call.
        states: names of the inputs of a stream that get the outputs of the previous timestep.
        sequence_outputs: names of the outputs of a stream that are compared at every timestep,
            (batch, time, ...). All other outputs are compared at the last timestep.
    """

    name: str
    signature: str
    inputs: Arrays
    expected: Arrays
    atol: dict[str, float]
    sequences: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    sequence_outputs: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<GoldenCase of signature {self.signature!r}: {self.name!r}>"

    def compute_outputs(self, run: RunSignature) -> Arrays:
        """Run an artifact on the inputs of this golden case, and return its outputs.

        Args:
            run: function from a signature's name and its inputs to its outputs.
        """
        if not self.sequences:
            outputs = run(self.signature, self.inputs)
            if not isinstance(outputs, Mapping):
                raise TypeError(f"outputs must be a dict of arrays, not {type(outputs).__name__}")
            return dict(outputs)
        sequences = {name: self.inputs[name] for name in self.sequences}
        others = {name: a for name, a in self.inputs.items() if name not in sequences}
        outputs = run_over_time(lambda x: run(self.signature, x), sequences, others, self.states)
        return {
            name: array if name in self.sequence_outputs else array[:, -1]
            for name, array in outputs.items()
        }


@dataclasses.dataclass(frozen=True, repr=False)
class GoldenCases:
    """The tests stored with an artifact: inputs, expected outputs, hashes of the artifact's files.

    Attributes:
        model: name of the Keras model.
        reference: text that describes the expected outputs, such as 'the outputs of the Keras model
            "digits"'.
        versions: versions of the packages that wrote the artifact, by name.
        hashes: SHA-256 hashes, by the name of each file in an artifact's folder; for a single file
            by "".
        cases: the golden cases.
    """

    model: str
    reference: str
    versions: dict[str, str]
    hashes: dict[str, str]
    cases: tuple[GoldenCase, ...]

    def __repr__(self) -> str:
        return f"<GoldenCases of {self.model!r}: {len(self.cases)} cases>"


def require_comparisons(cases: Sequence[GoldenCase]) -> None:
    """Raise GoldenCasesError if a golden case compares nothing: every artifact would pass.

    The tolerance of an output must be smaller than its largest expected value in all cases, or than
    1 if all expected values are 0. An output that is tiny in one case is compared in another case.

    Args:
        cases: the golden cases.
    """
    if not cases:
        raise GoldenCasesError(
            "the golden cases compare nothing: the list of cases is empty. Export the model again"
        )
    largest: dict[str, float] = {}
    for case in cases:
        for name, expected in case.expected.items():
            if expected.dtype.kind == "f":
                sizes = np.abs(expected[np.isfinite(expected)].astype("float64"))
                largest[name] = max(largest.get(name, 0.0), sizes.max(initial=0.0))
    for case in cases:
        if reason := _find_reason(case, largest):
            raise GoldenCasesError(
                f"the golden cases compare nothing in case {printable(case.name)}: {reason}. "
                "Export the model again, with samples whose outputs are numbers"
            )


def _find_reason(case: GoldenCase, largest: Mapping[str, float]) -> str:
    """Return why every artifact would pass a golden case; "" if it compares all its outputs."""
    for name, expected in case.expected.items():
        output = f"output '{printable(name)}'"
        if not expected.size:
            return f"{output} is empty"
        if expected.dtype.kind != "f":
            continue
        if np.isnan(expected).all():
            return f"every expected value of {output} is NaN"
        if not (atol := case.atol.get(name, math.inf)) < (largest[name] or 1.0):
            return (
                f"the tolerance of {output}, {atol:.3g}, is too large to detect an error: the "
                f"largest expected value is {largest[name]:.3g}"
            )
    return "" if case.expected else "the case has no expected outputs"
