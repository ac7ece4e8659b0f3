"""Paths, versions and refusals of `export_saved_model`."""

import numpy as np
import pytest

from keras_norm.export import export_saved_model
from tests.export import models


def test_exports_have_the_permissions_of_the_umask(exported, tmp_path):
    (tmp_path / "saved_model").mkdir()
    (tmp_path / "tflite").touch()
    for kind, path in exported.items():
        assert path.stat().st_mode == (tmp_path / kind).stat().st_mode


def test_versions_are_written_to_one_folder_and_never_overwritten(tmp_path):
    path = tmp_path / "served" / "digits"
    assert export_saved_model(models.dense(), path, version=1) == path / "1"
    second = export_saved_model(models.dense(), path, version=np.int64(2))
    assert sorted(path.iterdir()) == [path / "1", second]
    before = (second / "saved_model.pb").read_bytes()
    with pytest.raises(FileExistsError, match="a higher version"):
        export_saved_model(models.tagger(), second, overwrite=True)
    assert (second / "saved_model.pb").read_bytes() == before
    with pytest.raises(FileExistsError, match="so no version can be written inside it"):
        export_saved_model(models.dense(), second, version=1)


@pytest.mark.parametrize(
    ("version", "overwrite", "why"),
    [
        (None, False, "choose another path"),
        (1, False, "choose another path"),
        (None, True, "not a SavedModel"),
        (1, True, "a higher version"),
    ],
)
def test_an_existing_folder_is_refused_and_not_changed(tmp_path, version, overwrite, why):
    target = tmp_path / "model" / "1" if version else tmp_path / "model"
    target.mkdir(parents=True)
    (target / "theirs").touch()
    with pytest.raises(FileExistsError, match=why):
        export_saved_model(models.dense(), tmp_path / "model", version=version, overwrite=overwrite)
    assert [p.name for p in target.iterdir()] == ["theirs"]


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        *(("m", v, "must be an integer of at least 1; received") for v in (0, -1, True, 1.0, "1")),
        ("m", 2**63, "version must be at most 9223372036854775807"),
        ("model.keras", None, "a SavedModel is a folder; received .*model.keras"),
        ("model.tflite", None, "a SavedModel is a folder; received .*model.tflite"),
        ("saved_model.pb", None, "a SavedModel is a folder; received .*saved_model.pb"),
        *((n, None, "in the path of a SavedModel as a pattern") for n in ("r[/y]", "*", "?", "\\")),
    ],
)
def test_a_wrong_path_or_version_is_refused(tmp_path, name, version, message):
    with pytest.raises(ValueError, match=message):
        export_saved_model(models.dense(), tmp_path / name, version=version)
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file is a file"):
        export_saved_model(models.dense(), tmp_path / "file" / "model")
