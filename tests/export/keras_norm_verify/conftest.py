"""An exported file with its golden cases."""

import pytest


@pytest.fixture(scope="session")
def exported(recurrent_tflite):
    """Name the file with a step signature and golden cases beside it."""
    return recurrent_tflite


@pytest.fixture
def copied(exported, tmp_path):
    """Copy the exported file and its golden cases, so that a test can change them."""
    for file in exported.parent.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path / exported.name
