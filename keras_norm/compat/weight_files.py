"""Read files of weights that another library wrote, without pickle."""

import os
import pathlib
from collections.abc import Callable

from keras_norm.npz_files import read_npz
from keras_norm.typing import Arrays

SAVE_WITH_TORCH = "safetensors.torch.save_file(model.state_dict(), 'model.safetensors')"
SAVE_WITH_FLAX = (
    "safetensors.flax.save_file(flax.traverse_util.flatten_dict(params, sep='/'), "
    "'model.safetensors')"
)
# Endings of files that `read_weights` does not read. The value is a line of Python for the error
# message: with it, users write their weights to a .safetensors file.
FOREIGN = {
    **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"), SAVE_WITH_TORCH),
    ".msgpack": SAVE_WITH_FLAX,
}


def read_weights(path: str | os.PathLike[str]) -> Arrays:
    """Read the arrays of a .safetensors file or of a .npz file, by name.

    Nothing is ever unpickled: the pickle of a .pt file runs the code that it contains.

    Args:
        path: a .safetensors file, as PyTorch, Flax and Hugging Face write it, or a .npz file.

    Returns:
        A dict from names to arrays.

    Raises:
        ValueError: a file of another format, or a damaged file.
        ModuleNotFoundError: the package safetensors is not installed.
        OSError: the file cannot be read.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.npz")
        >>> np.savez(path, weight=np.ones(2))
        >>> read_weights(path)
        {'weight': array([1., 1.])}
    """
    path = pathlib.Path(path)
    readers: dict[str, Callable[[pathlib.Path], Arrays]] = {
        ".safetensors": _read_safetensors,
        ".npz": _read_npz,
    }
    ending = path.suffix.lower()
    if ending not in readers:
        save = FOREIGN.get(ending, SAVE_WITH_TORCH)
        raise ValueError(
            "Weights are read from .safetensors files and .npz files only, because a pickle runs "
            f"the code that it contains. Received: '{path}'. Load the file with the library that "
            f"wrote it, and write a .safetensors file: {save}."
        )
    return readers[ending](path)


def _read_safetensors(path: pathlib.Path) -> Arrays:
    try:
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "The package safetensors, which reads .safetensors files, is not installed. Run: pip "
            "install safetensors.",
            name=error.name,
        ) from error
    try:
        arrays: Arrays = safetensors.numpy.load_file(path)
    except safetensors.SafetensorError as error:
        raise ValueError(f"'{path}' is not a safetensors file, or is damaged: {error}.") from error
    return arrays


def _read_npz(path: pathlib.Path) -> Arrays:
    try:
        with path.open("rb") as file:
            return read_npz(file)
    except ValueError as error:
        raise ValueError(
            f"'{path}' is not a .npz file of arrays, or is damaged: {error}. Write it with "
            "numpy.savez, without objects."
        ) from error
