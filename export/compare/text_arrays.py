"""Convert texts to arrays of bytes, the form in which TensorFlow returns a tensor of strings."""

import numpy as np

from keras_norm.typing import Array, TensorLike


def is_text(array: Array) -> bool:
    """Return whether all elements of an array are texts: str or bytes."""
    if array.dtype.kind == "O":
        return all(isinstance(element, str | bytes) for element in array.flat)
    return array.dtype.kind in "SUT"  # NumPy's codes for bytes, str and StringDType


def to_bytes(texts: TensorLike) -> Array:
    r"""Convert texts to an array of bytes objects in UTF-8, as `numpy()` of a tensor of strings.

    The elements are objects, because an array of fixed width needs the memory of the longest text
    for every text.

    Args:
        texts: array or nested lists of str or bytes.

    Raises:
        ValueError: an element is not a text; or ends with a NUL character, which NumPy's arrays of
            fixed width cannot store; or has no code in UTF-8.

    Example:
        >>> to_bytes(["café", b"tea"]).tolist()
        [b'caf\xc3\xa9', b'tea']
    """
    array = np.asarray(texts, object)
    encoded = np.empty(array.shape, object)
    for index, element in np.ndenumerate(array):
        if not isinstance(element, str | bytes):
            raise ValueError(f"received {element!r}, which is not a text")
        text = element.encode() if isinstance(element, str) else element
        if text.endswith(b"\0"):
            raise ValueError(f"received {element!r}, which ends with a NUL character")
        encoded[index] = text
    return encoded


def to_fixed_width(texts: TensorLike) -> Array:
    """Convert texts to NumPy's bytes of fixed width, which a file stores without pickle."""
    return to_bytes(texts).astype("S")
