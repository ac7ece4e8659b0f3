"""Read the arrays of .npz and .npy files."""

import os
import pathlib

import numpy as np

from keras_norm.typing import Array, Arrays
from keras_norm_verify.files import require_arrays
from keras_norm_verify.printable import printable


def read_arrays(path: str | os.PathLike[str]) -> Arrays | Array:
    """Read the arrays of a .npz file by name, or the array of a .npy file.

    Pickled objects are refused, so reading a file executes no code from it.

    Raises:
        OSError: the file does not exist, is a directory, or cannot be read.
        ValueError: the file is not a .npz or .npy file, or it is damaged.
    """
    path = pathlib.Path(path)
    require_arrays(path)
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else dict(loaded)
    # A damaged file may raise any error: a wrong header, for example, requires too much memory.
    except Exception as error:
        reason = printable(str(error), 200)
        if "Object arrays" in reason:
            reason += ". Write an array of texts with the dtype str: texts.astype(str)."
        raise ValueError(f"{path} cannot be read: {reason}") from error
