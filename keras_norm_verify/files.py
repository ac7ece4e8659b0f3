"""Require that a path is a readable file, or a readable file of arrays."""

import pathlib

# First bytes of .npz and .npy files.
NPZ_BYTES, NPY_BYTES = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"


def require_file(path: pathlib.Path) -> None:
    """Raise OSError for a path that is not a readable file.

    Args:
        path: any path.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder.")
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file.")
        if not path.is_file():
            raise OSError(f"{path} is not a file.")
        with path.open("rb"):
            pass
    except OSError as error:
        if error.strerror is None:  # raised above, with a complete message
            raise
        raise type(error)(f"{path} cannot be read: {error.strerror}.") from error


def require_arrays(path: pathlib.Path) -> None:
    """Raise OSError or ValueError for a path that is not an .npz or .npy file.

    Args:
        path: any path.
    """
    try:
        require_file(path)
    except IsADirectoryError as error:
        raise IsADirectoryError(f"{error} Give the .npz or .npy files of the folder.") from error
    with path.open("rb") as file:
        begin = file.read(len(NPY_BYTES))
    if not begin.startswith((*NPZ_BYTES, NPY_BYTES)):
        raise ValueError(
            f"{path} is not an .npz or .npy file. Write one with "
            "numpy.savez(file, input_name=array)."
        )
