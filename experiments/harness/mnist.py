"""MNIST as the studies read it."""

import functools
import pathlib

import numpy as np

from experiments.harness import data
from experiments.harness.study import Parts

VALIDATION = 5000


def load_mnist(folder: pathlib.Path | None, shape: tuple[int, ...], samples: int | None) -> Parts:
    """The digits to train, validate and test with, pixels in [0, 1].

    Args:
        folder: of the data.
        shape: of a digit.
        samples: how many of each part; None for all.
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
