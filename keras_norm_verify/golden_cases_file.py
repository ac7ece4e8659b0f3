"""Write golden cases to the bytes of a file, and read such a file, which may be malicious."""

import contextlib
import dataclasses
import io
import json
import math
import typing
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np

from keras_norm_verify.golden_cases import GoldenCase, GoldenCases, GoldenCasesError
from keras_norm_verify.printable import printable, printable_error
from keras_norm_verify.run_over_time import Array, Arrays

Json: TypeAlias = Any  # a value that JSON can store

Fields = TypeVar("Fields", GoldenCase, GoldenCases)

VERSION = 1
# Maximum size of golden cases, packed and unpacked. Usually they take a few kilobytes. The limit
# protects against a small file that unpacks to gigabytes.
MAX_BYTES = 256 * 2**20
MAX_CHARACTERS = 2**22  # Maximum length of the JSON text.
# The two compressions of NumPy's .npz files. Other compressions are refused, because their parsers
# may unpack a huge block at once.
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def pack_golden_cases(golden_cases: GoldenCases) -> bytes:
    """Pack golden cases as an .npz file: arrays, and a JSON text named `golden_cases`.

    An array has the name "0/inputs/x" for input "x" of the first case, or "0/expected/y".

    Raises:
        GoldenCasesError: the file is larger than `parse_golden_cases` reads.
    """
    fields = dataclasses.asdict(golden_cases)
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
    """Convert an array of Python objects (bytes) to an array with a NumPy dtype such as S5."""
    return array.astype(np.bytes_) if array.dtype.kind == "O" else array


def parse_golden_cases(content: bytes) -> GoldenCases:
    """Parse the bytes that `pack_golden_cases` returned.

    Args:
        content: bytes of the .npz file.

    Raises:
        GoldenCasesError: the golden cases are damaged, too large or of a newer version.
    """
    with reporting_damage():
        arrays = _read_arrays(content)
        text = arrays.get("golden_cases", np.zeros(()))
        fits = text.dtype.kind == "U" and not text.shape and text.nbytes <= 4 * MAX_CHARACTERS
        _require(fits, 'the file has no JSON text "golden_cases", or the text is too long')
        fields = json.loads(str(text), object_pairs_hook=_without_repeats)
        _require(isinstance(fields, dict), "the JSON text is not a dict")
        version = fields.pop("version", None)
        if isinstance(version, int) and version > VERSION:
            raise GoldenCasesError(
                f"the golden cases have format version {version}, and this keras-norm reads "
                f"version {VERSION}. Update keras-norm"
            )
        _require(version == VERSION, "the format version of the golden cases is unknown")
        fields["cases"] = [_parse_case(k, each, arrays) for k, each in enumerate(fields["cases"])]
        return _make_dataclass(GoldenCases, fields, "the JSON text")


def _parse_case(k: int, fields: dict[str, Json], arrays: Arrays) -> GoldenCase:
    """Make golden case number k from its fields in the JSON text and the arrays of the file."""
    for part in ("inputs", "expected"):
        fields[part] = {name: arrays[f"{k}/{part}/{name}"] for name in fields[part]}
        for name, array in fields[part].items():
            problem = f"case {k}: '{printable(name)}' is not an array of numbers or bytes"
            _require(array.dtype.kind in "biufS", problem)
    case = _make_dataclass(GoldenCase, fields, f"case {k}")
    for name in case.expected:
        atol = case.atol.get(name, math.nan)
        problem = f"case {k}: the tolerance of output '{printable(name)}' is {atol}, not a finite "
        _require(0 <= atol < math.inf, f"{problem}number of 0 or more")
    named = {*case.sequences, *case.states} - case.inputs.keys()
    named |= {*case.sequence_outputs} - case.expected.keys()
    _require(not named, f"case {k} has no array with the name '{printable(', '.join(named))}'")
    lengths = {case.inputs[name].shape[1:2] for name in case.sequences}
    equal = len(lengths) <= 1 and not lengths & {(), (0,)}
    _require(equal, f"case {k}: the sequences have no timesteps, or different numbers of timesteps")
    return case


def _make_dataclass(kind: type[Fields], fields: dict[str, Json], where: str) -> Fields:
    """Create a dataclass object from a dict; require the field types that the class declares."""
    kinds = typing.get_type_hints(kind)
    _require(fields.keys() == kinds.keys(), f"{where} must have the fields {', '.join(kinds)}")
    values: dict[str, Json] = {}
    for name, value in fields.items():
        value = tuple(value) if isinstance(value, list) else value
        problem = f"the field {name} of {where} is a {type(value).__name__}: this type is wrong"
        problem += ", or the type of an entry of the field is wrong"
        _require(_has_type(value, kinds[name]), problem)
        values[name] = value
    return kind(**values)


def _has_type(value: Json, kind: Any) -> bool:
    """Return whether a value has a type such as `dict[str, float]` or `tuple[str, ...]`."""
    if not isinstance(value, typing.get_origin(kind) or kind):
        return False
    if isinstance(value, dict):
        key, part = typing.get_args(kind)
        return all(isinstance(k, key) and _has_type(v, part) for k, v in value.items())
    if isinstance(value, tuple):
        return all(_has_type(v, typing.get_args(kind)[0]) for v in value)
    return True


def _read_arrays(content: bytes) -> Arrays:
    """Read the arrays of an .npz file by name, and unpack at most `MAX_BYTES`."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        require_size(sum(entry.file_size for entry in archive.infolist()))
        files = ((e.filename, io.BytesIO(unpack_entry(archive, e))) for e in archive.infolist())
        return _without_repeats(
            (name.removesuffix(".npy"), np.lib.format.read_array(file, allow_pickle=False))
            for name, file in files
        )


def unpack_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Unpack an entry of a zip archive, but not more bytes than the entry's header declares.

    Args:
        archive: the archive.
        entry: the entry.

    Raises:
        GoldenCasesError: the entry is too large, or has a compression that NumPy does not write.
    """
    require_size(entry.file_size)
    problem = "the archive is compressed with a method that NumPy does not write"
    _require(entry.compress_type in COMPRESSIONS, problem)
    with archive.open(entry) as file:
        return file.read(entry.file_size + 1)


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


def _without_repeats(pairs: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    """Make a dict of (name, value) pairs; raise GoldenCasesError if a name occurs twice."""
    fields: dict[str, Json] = {}
    for name, value in pairs:
        _require(name not in fields, f"the name '{printable(name)}' occurs twice")
        fields[name] = value
    return fields


@contextlib.contextmanager
def reporting_damage() -> Iterator[None]:
    """Raise GoldenCasesError for any exception of a parser inside a `with` block."""
    try:
        yield
    except GoldenCasesError:
        raise
    # The parsers of damaged files may raise any exception.
    except Exception as error:
        raise _damaged(printable_error(error)) from error


def _require(fits: bool, problem: str) -> None:
    if not fits:
        raise _damaged(problem)


def _damaged(problem: str) -> GoldenCasesError:
    return GoldenCasesError(
        f"the golden cases are damaged: {problem.rstrip('.')}. Export the model again"
    )
