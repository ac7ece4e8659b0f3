"""The golden cases of an artifact: inputs and expected outputs, stored as an .npz file."""

import dataclasses
import io
import json
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from keras_norm.export.printable import MAX_PRINTED, printable
from keras_norm.export.runtimes.over_time import run_over_time
from keras_norm.typing import Array, Arrays

VERSION = 1
# Maximum size of golden cases, packed and unpacked. Usually they take a few kilobytes. The limit
# protects against a small file that unpacks to gigabytes.
MAX_BYTES = 256 * 2**20

# Type of a function that runs an artifact: (signature's name, inputs by name) -> outputs by name.
RunSignature = Callable[[str, Arrays], Mapping[str, Array]]


class GoldenCasesError(ValueError):
    """The golden cases are missing or unusable, or the runtime of the artifact is missing.

    Args:
        message: one line. Escape sequences of terminals, in names of a file, become escapes.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, MAX_PRINTED))


@dataclasses.dataclass(frozen=True, repr=False)
class GoldenCase:
    """One test of an artifact: the inputs of a call or of a stream, and the expected outputs.

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
        hashes: SHA-256 hashes, by the name of each file in a SavedModel's folder; for a TFLite or
            ONNX file by "".
        cases: the golden cases.
    """

    model: str
    reference: str
    versions: dict[str, str]
    hashes: dict[str, str]
    cases: tuple[GoldenCase, ...]

    def __repr__(self) -> str:
        return f"<GoldenCases of {self.model!r}: {len(self.cases)} cases>"

    def to_bytes(self) -> bytes:
        """Pack the golden cases as an .npz file: arrays, and a JSON text named `golden_cases`.

        Raises:
            GoldenCasesError: the file is larger than `parse_golden_cases` reads.
        """
        fields = dataclasses.asdict(self)
        arrays: Arrays = {}
        for k, case in enumerate(fields["cases"]):
            for part in ("inputs", "expected"):
                arrays |= {f"{k}/{part}/{n}": _without_objects(a) for n, a in case[part].items()}
                case[part] = list(case[part])
        file = io.BytesIO()
        arrays["golden_cases"] = np.array(json.dumps({"version": VERSION} | fields))
        np.savez_compressed(file, allow_pickle=False, **arrays)
        with zipfile.ZipFile(file) as archive:
            require_size(sum(entry.file_size for entry in archive.infolist()))
        return file.getvalue()


def _without_objects(array: Array) -> Array:
    """Convert an array of bytes objects, which is text, to bytes of fixed width."""
    return array.astype(np.bytes_) if array.dtype.kind == "O" else array


def require_size(size: int) -> None:
    """Raise GoldenCasesError for golden cases of more than `MAX_BYTES`.

    Args:
        size: bytes of the golden cases, packed or unpacked.
    """
    if size > MAX_BYTES:
        raise GoldenCasesError(
            f"the golden cases take {size:,} bytes, more than the limit of {MAX_BYTES:,}. Export "
            "with shorter samples, or with golden_cases=False"
        )


def require_comparisons(cases: Sequence[GoldenCase]) -> None:
    """Raise GoldenCasesError if the golden cases compare nothing: every artifact would pass.

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
        if not case.expected:
            raise _compares_nothing(case, "the case has no expected outputs")
        for name, expected in case.expected.items():
            if not expected.size:
                raise _compares_nothing(case, f"output '{printable(name)}' is empty")
            if expected.dtype.kind == "f":
                if np.isnan(expected).all():
                    values = f"every expected value of output '{printable(name)}' is NaN"
                    raise _compares_nothing(case, values, " with samples whose outputs are numbers")
                sizes = np.abs(expected[np.isfinite(expected)].astype("float64"))
                largest[name] = max(largest.get(name, 0.0), sizes.max(initial=0.0))
    for case in cases:
        for name in case.expected.keys() & largest.keys():
            atol = case.atol.get(name, math.inf)
            if not atol < (largest[name] or 1.0):
                raise _compares_nothing(
                    case,
                    f"output '{printable(name)}' has the tolerance {atol:.3g}, too large to detect "
                    f"an error, because its largest expected value is {largest[name]:.3g}",
                )


def _compares_nothing(case: GoldenCase, why: str, how: str = "") -> GoldenCasesError:
    name = printable(case.name)
    return GoldenCasesError(
        f"the golden cases compare nothing in case {name}: {why}. Export the model again{how}"
    )
