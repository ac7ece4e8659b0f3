"""An exported file with its golden cases."""

import pytest

from keras_norm.export import export_tflite
from tests.export import models


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Export a TFLite file with a step signature, with its golden cases beside it."""
    return export_tflite(models.recurrent(), tmp_path_factory.mktemp("m") / "model.tflite")


@pytest.fixture
def copied(exported, tmp_path):
    """Copy the exported file and its golden cases, so that a test can change them."""
    for file in exported.parent.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path / exported.name
