"""Read the shapes and dtypes of the arrays of .npz and .npy files, but not their values."""

import math
import pathlib
import zipfile
from typing import IO, Any, NamedTuple

import numpy as np

from keras_norm_verify.files import NPY_BYTES, require_arrays
from keras_norm_verify.printable import printable_error


class Header(NamedTuple):
    """Shape and dtype of a stored array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def read_headers(path: pathlib.Path) -> dict[str, Header]:
    """Return the headers of the arrays in a file: {name: header}, or {"": header} of a .npy file.

    Args:
        path: any path.

    Raises:
        OSError: the path is not a file, or cannot be read.
        ValueError: the file is not a .npz or .npy file, has no arrays, or is damaged.
    """
    require_arrays(path)
    try:
        headers = _read_headers(path)
    # The zip parser and NumPy may raise any error for a damaged file.
    except Exception as error:
        raise ValueError(f"{path} cannot be read: {printable_error(error)}") from error
    if not headers:
        raise ValueError(
            f"{path} has no arrays. Write an .npz file with numpy.savez(file, input_name=array)."
        )
    for name, header in headers.items():
        if header.dtype.hasobject:
            raise ValueError(
                f"{path} cannot be read: the array {name!r} has Python objects. Write an array of "
                "texts with the dtype str: texts.astype(str)."
            )
    return headers


def _read_headers(path: pathlib.Path) -> dict[str, Header]:
    with path.open("rb") as file:
        if file.read(len(NPY_BYTES)) == NPY_BYTES:
            file.seek(0)
            return {"": _read_header(file, path.stat().st_size)}
        headers = {}
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.filename.endswith(".npy"):
                    with archive.open(entry) as stored:
                        header = _read_header(stored, entry.file_size)
                        headers[entry.filename.removesuffix(".npy")] = header
        return headers


def _read_header(file: IO[bytes], size: int) -> Header:
    """Read the header of an array from its file, which has `size` bytes."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"the version {version} of the .npy format is unknown")
    # Read version 3 as version 2: only the headers of structured arrays differ.
    is_first = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > size - file.tell():
        raise ValueError(f"the file ends before the last value of an array of shape {shape}")
    return Header(shape, dtype)
