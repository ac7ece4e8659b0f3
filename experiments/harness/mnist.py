"""MNIST with a fixed validation set."""

import functools
import pathlib

import numpy as np

from experiments.harness import data
from experiments.harness.study import Parts

VALIDATION = 5000


def load_mnist(folder: pathlib.Path | None, shape: tuple[int, ...], samples: int | None) -> Parts:
    """Load the digits for training, validation and test, with pixels in [0, 1].

    Args:
        folder: the data folder; None if there is none.
        shape: shape of a digit.
        samples: number of samples of each part; None for all.
    """
    parts = _read(folder)
    return {
        name: (images[:samples].reshape(-1, *shape).astype("float32") / 255, classes[:samples])
        for name, (images, classes) in parts.items()
    }


@functools.lru_cache(maxsize=1)
def _read(folder: pathlib.Path | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    train, test = (data.from_tfds("mnist", split, folder) for split in ("train", "test"))
    images, classes = train["image"], train["label"]
    return {
        "training": (images[VALIDATION:], classes[VALIDATION:]),
        "validation": (images[:VALIDATION], classes[:VALIDATION]),
        "test": (test["image"], test["label"]),
    }
