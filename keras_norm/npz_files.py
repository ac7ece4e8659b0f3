"""Read .npz files without pickle."""

import zipfile
from typing import BinaryIO

import numpy as np

from keras_norm.typing import Arrays


def read_npz(file: BinaryIO) -> Arrays:
    """Read the arrays of an open .npz file, by name.

    Raises:
        ValueError: the file is not a .npz file, is damaged, or has pickled objects. The message is
            the reason.
        OSError: the file cannot be read.
    """
    # A damaged .npz file raises one of many errors: of NumPy, of zipfile, of zlib.
    try:
        zipfile.ZipFile(file)  # Raises an error for a .npy file; np.load would read the file.
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except OSError:
        raise
    except Exception as error:
        raise ValueError(str(error).rstrip(".")) from error
