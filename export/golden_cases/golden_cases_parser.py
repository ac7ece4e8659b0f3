"""Parse the file of golden cases, which may be damaged or malicious."""

import dataclasses
import io
import json
import math
import zipfile
from collections.abc import Iterable

import numpy as np

from keras_norm.export.golden_cases.golden_cases import (
    VERSION,
    GoldenCase,
    GoldenCases,
    GoldenCasesError,
    require_comparisons,
    require_size,
)
from keras_norm.export.printable import printable, printable_error
from keras_norm.typing import Arrays, Json

MAX_CHARACTERS = 2**22  # maximum length of the JSON text


def parse_golden_cases(content: bytes) -> GoldenCases:
    """Parse the bytes that `GoldenCases.to_bytes` wrote.

    Args:
        content: bytes of the .npz file.

    Raises:
        GoldenCasesError: the golden cases are damaged, too large, of a newer version, or compare
            nothing.
    """
    try:
        arrays = _read_arrays(content)
        _require("golden_cases" in arrays, "the file has no JSON text golden_cases")
        text = arrays.pop("golden_cases")
        _require(text.dtype.kind == "U" and text.shape == (), "the JSON text is not a string")
        _require(text.nbytes <= 4 * MAX_CHARACTERS, "the JSON text is too long")
        fields = json.loads(str(text), object_pairs_hook=_without_repeats)
        _require(isinstance(fields, dict), "the JSON text is not a dict")
        _require_version(fields.pop("version", None))
        _require_fields(fields, GoldenCases, "the JSON text")
        _require_texts(fields, ("model", "reference"))
        for name in ("versions", "hashes"):
            _require(isinstance(fields[name], dict), f"the field {name} is not a dict")
            _require_texts(fields[name], fields[name])
        _require(isinstance(fields["cases"], list), "the field cases is not a list")
        cases = [_parse_case(k, own, arrays) for k, own in enumerate(fields.pop("cases"))]
        require_comparisons(cases)
        return GoldenCases(**fields, cases=tuple(cases))
    except GoldenCasesError:
        raise
    # The parsers of damaged files may raise any exception.
    except Exception as error:
        raise damaged(printable_error(error)) from error


def damaged(problem: str) -> GoldenCasesError:
    """Create the error for golden cases that were changed after the export.

    Args:
        problem: description of the first error in the golden cases.
    """
    return GoldenCasesError(
        f"the golden cases are damaged: {problem.rstrip('.')}. Export the model again"
    )


def unpack_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Unpack an entry of a zip archive, but not more bytes than the entry's header declares.

    Args:
        archive: the archive.
        entry: the entry.

    Raises:
        GoldenCasesError: the entry is too large, or of a compression that NumPy does not write.
    """
    require_size(entry.file_size)
    # Refuse compressions other than ZIP_STORED and ZIP_DEFLATED: `read` would unpack whole blocks,
    # and a block may be huge.
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    problem = "the archive is compressed with a method that NumPy does not write"
    _require(entry.compress_type in methods, problem)
    with archive.open(entry) as file:
        return file.read(entry.file_size + 1)


def _read_arrays(content: bytes) -> Arrays:
    """Read the arrays of an .npz file by name, and unpack at most `MAX_BYTES`."""
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        require_size(sum(entry.file_size for entry in archive.infolist()))
        for entry in archive.infolist():
            npy = io.BytesIO(unpack_entry(archive, entry))
            name = entry.filename.removesuffix(".npy")
            _require(name not in arrays, f"the array '{printable(name)}' occurs twice")
            arrays[name] = np.lib.format.read_array(npy, allow_pickle=False)
    return arrays


def _parse_case(k: int, fields: Json, arrays: Arrays) -> GoldenCase:
    """Parse a golden case, and check the type of each field.

    Args:
        k: number of the case.
        fields: fields of the case in the JSON text.
        arrays: arrays of the .npz file.
    """
    _require_fields(fields, GoldenCase, f"case {k}")
    _require_texts(fields, ("name", "signature"))
    for part in ("inputs", "expected", "sequences", "states", "sequence_outputs"):
        names = fields[part]
        listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
        unique = listed and len({*names}) == len(names)
        _require(unique, f"case {k}: the field {part} is not a list of names without repetition")
    for part in ("inputs", "expected"):
        for name in fields[part]:
            array = arrays.get(f"{k}/{part}/{name}")
            fits = array is not None and array.dtype.kind in "biufS"
            problem = f"case {k}: '{printable(name)}' has no array of numbers or bytes in the file"
            _require(fits, problem)
        fields[part] = {name: arrays[f"{k}/{part}/{name}"] for name in fields[part]}
    inputs, tolerances = fields["inputs"], fields["atol"]
    _require(isinstance(tolerances, dict), f"case {k}: the field atol is not a dict")
    for name in fields["expected"]:
        atol = tolerances.get(name)
        _require(
            type(atol) in (int, float) and 0 <= atol < math.inf,
            f"case {k}: the tolerance of output '{printable(name)}' is "
            f"{printable(repr(atol))}, not a finite number of 0 or more",
        )
    for name in (*fields["sequences"], *fields["states"]):
        _require(
            name in inputs, f"case {k}: the state or sequence '{printable(name)}' is not an input"
        )
    for name in fields["sequence_outputs"]:
        problem = f"case {k}: no expected value of the sequence output '{printable(name)}'"
        _require(name in fields["expected"], problem)
    usable = fields["sequences"] or not fields["states"]
    _require(bool(usable), f"case {k} has states, but no input with timesteps")
    lengths = {inputs[name].shape[1:2] for name in fields["sequences"]}
    equal = len(lengths) <= 1 and not lengths & {(), (0,)}
    _require(equal, f"case {k}: the sequences have no timesteps, or different numbers of timesteps")
    values: Json = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
    return GoldenCase(**values)


def _require(fits: bool, problem: str) -> None:
    if not fits:
        raise damaged(problem)


def _require_version(version: Json) -> None:
    whole = type(version) is int and version > 0
    _require(whole, "the format version of the golden cases is not an integer of at least 1")
    if version > VERSION:
        raise GoldenCasesError(
            f"the golden cases have format version {version}, and this keras-norm reads version "
            f"{VERSION}. Update keras-norm"
        )


def _without_repeats(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Make a dict of a JSON object; raise GoldenCasesError if a key occurs twice.

    JSON parsers differ in the value of a repeated key.
    """
    fields: dict[str, Json] = {}
    for key, value in pairs:
        _require(key not in fields, f"the JSON text has the key '{printable(key)}' twice")
        fields[key] = value
    return fields


def _require_fields(fields: Json, kind: type[GoldenCase | GoldenCases], where: str) -> None:
    names = {field.name for field in dataclasses.fields(kind)}
    fits = isinstance(fields, dict) and set(fields) == names
    _require(fits, f"the fields of {where} are not {', '.join(sorted(names))}")


def _require_texts(fields: dict[str, Json], names: Iterable[str]) -> None:
    for name in names:
        _require(isinstance(fields[name], str), f"the field '{printable(name)}' is not text")
