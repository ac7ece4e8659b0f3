"""Where the real data are."""

import os
import pathlib

import pytest


@pytest.fixture
def data():
    """The data folder; skips without it."""
    folder = os.environ.get("KERAS_NORM_DATA")
    if folder is None:
        pytest.skip("KERAS_NORM_DATA names no folder with the data of the examples")
    return pathlib.Path(folder)
