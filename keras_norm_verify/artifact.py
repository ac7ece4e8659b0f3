"""Find an artifact and its golden cases, and hash its files."""

import hashlib
import pathlib
import zipfile

from keras_norm_verify.files import require_file
from keras_norm_verify.golden_cases import GoldenCases, GoldenCasesError
from keras_norm_verify.golden_cases_file import (
    parse_golden_cases,
    reporting_damage,
    require_size,
    unpack_entry,
)
from keras_norm_verify.printable import printable_error
from keras_norm_verify.runtimes import RUNTIMES, name_of_format, require_known

# Golden cases are inputs and expected outputs. An exported folder has them in its file IN_FOLDER.
# "model.tflite" has them in "model.tflite.golden.npz" beside it, or in a zip archive at its end.
FILE_NAME = "golden.npz"
IN_FOLDER = pathlib.PurePath("assets.extra", FILE_NAME)
SUFFIX = ".golden.npz"


def golden_cases_path(path: pathlib.Path) -> pathlib.Path:
    """Return the path of the golden cases of an artifact, in its folder or beside its file.

    Args:
        path: a folder or a file.
    """
    return path / IN_FOLDER if path.is_dir() else path.with_name(path.name + SUFFIX)


def find_artifact(path: pathlib.Path) -> pathlib.Path:
    """Return the path of an artifact; in a folder of versions, the path of the highest version.

    Args:
        path: a file or folder, also of an unknown format.

    Raises:
        GoldenCasesError: the path does not exist, cannot be read, or is a folder without artifact.
    """
    try:
        if not path.exists():
            raise GoldenCasesError(f"{path}: no such file or folder")
        name = name_of_format(path)
        return path if name is None else RUNTIMES[name].find(path)
    except OSError as error:
        raise GoldenCasesError(f"{path} cannot be read: {error.strerror}") from error


def read_golden_cases(path: pathlib.Path, file: pathlib.Path | None = None) -> GoldenCases:
    """Find and read the golden cases (inputs and expected outputs) of an exported file.

    Args:
        path: an exported file or folder, or a folder of numbered versions.
        file: file of the golden cases; None for the path at which exporters write it.

    Raises:
        GoldenCasesError: the golden cases are missing or unusable.
    """
    path = find_artifact(path)
    usual = golden_cases_path(path)
    try:
        if file is not None:
            require_file(file)
        found = file or usual
        if found.is_file():
            require_size(found.stat().st_size)
            return parse_golden_cases(found.read_bytes())
        if _archive_offset(path) is not None:
            return parse_golden_cases(_unpack_inside(path))
    except OSError as error:
        raise GoldenCasesError(printable_error(error)) from error
    if path.name.endswith(SUFFIX):
        raise GoldenCasesError(
            f"{path} is a file of golden cases. Give the exported file: "
            f"{path.with_name(path.name.removesuffix(SUFFIX))}"
        )
    require_known(path)
    raise GoldenCasesError(
        f"{path} has no golden cases: there is no {usual.name}. Give the file of the golden "
        "cases, or export the model again"
    )


def hash_files(path: pathlib.Path) -> dict[str, str]:
    """Hash the files of an artifact that determine its outputs.

    Args:
        path: a folder or a file. Golden cases in a folder or at the end of a TFLite file are not
            hashed.

    Returns:
        SHA-256 hashes, by the name of each file in a folder; for a file by "".
    """
    if not path.is_dir():
        return {"": hashlib.sha256(read_without_golden_cases(path)).hexdigest()}
    name = name_of_format(path)
    hashed = RUNTIMES[name].hashed if name is not None else ()
    inside = {file.relative_to(path): file for file in sorted(path.rglob("*")) if file.is_file()}
    return {
        name.as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for name, file in inside.items()
        if (name.parts[0] in hashed if hashed else name != IN_FOLDER)
    }


def read_without_golden_cases(path: pathlib.Path) -> bytes:
    """Return the content of an exported file, without golden cases at its end.

    Args:
        path: a file.
    """
    return path.read_bytes()[: _archive_offset(path)]


def _archive_offset(path: pathlib.Path) -> int | None:
    """Return the byte offset of the golden cases in a file, or None for a file without them."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            archive.getinfo(FILE_NAME)
            return min(entry.header_offset for entry in archive.infolist())
    # The last bytes of a model may look like a zip archive. The zip parser may then raise any
    # exception.
    except Exception:
        return None


def _unpack_inside(path: pathlib.Path) -> bytes:
    """Unpack the golden cases at the end of a TFLite file."""
    with reporting_damage(), zipfile.ZipFile(path) as archive:
        return unpack_entry(archive, archive.getinfo(FILE_NAME))
