"""Exports to a full disk, and to a folder without permission."""

import os
import pathlib
import subprocess
import tempfile

import keras
import pytest

from keras_norm.export import export_saved_model, export_tflite
from tests.export import models

NOBODY = 65534
EXPORTS = {"saved_model": export_saved_model, "model.tflite": export_tflite}


@pytest.fixture(scope="module")
def model():
    """Build a model of 120 kB, which does not fit on a disk of 64 kB."""
    return models.stack(keras.layers.Dense(5000), keras.layers.Dense(2, name="y"), shape=(3,))


@pytest.fixture
def small_disk(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a tmpfs may not be mounted here")
    (tmp_path / "theirs").write_text("kept")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.fixture
def forbidden():
    """Make a folder without write permission; a root process becomes the user nobody."""
    with tempfile.TemporaryDirectory() as above:
        os.chmod(above, 0o755)
        folder = pathlib.Path(above, "forbidden")
        folder.mkdir(mode=0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)


@pytest.mark.parametrize("name", EXPORTS)
def test_a_full_disk_raises_os_error_and_leaves_no_files(model, small_disk, name):
    with pytest.raises(OSError, match="No space left"):
        EXPORTS[name](model, small_disk / "new" / name)
    assert [path.read_text() for path in small_disk.iterdir()] == ["kept"]


@pytest.mark.parametrize("name", EXPORTS)
def test_a_folder_without_permission_raises_os_error(model, forbidden, name):
    with pytest.raises(PermissionError, match="forbidden"):
        EXPORTS[name](model, forbidden / name)
    assert list(forbidden.iterdir()) == []
