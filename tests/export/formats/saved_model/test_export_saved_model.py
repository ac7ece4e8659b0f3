"""Paths, versions and refusals of `export_saved_model`."""

import keras
import numpy as np
import pytest

from keras_norm.export import (
    export_onnx,
    export_saved_model,
    export_tflite,
)
from keras_norm.export.formats.saved_model import export_saved_model as saved_model
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from tests.export import models


@pytest.mark.parametrize(
    ("export", "name"),
    [(export_saved_model, "m"), (export_tflite, "m.tflite"), (export_onnx, "m.onnx")],
)
def test_weights_that_are_nan_are_refused(export, name, tmp_path):
    model = models.recurrent()
    weights = model.get_weights()
    weights[-1][0] = np.nan
    model.set_weights(weights)
    with pytest.raises(ValueError, match=r'"y" has NaN in its weight "bias".*training diverged'):
        export(model, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


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


def test_overwrite_replaces_a_saved_model(tmp_path):
    for model in (models.dense(), models.tagger()):
        path = export_saved_model(model, tmp_path / "model", overwrite=True)
    _, outputs = SavedModelFile(path).read_signature()
    assert set(outputs) == {"echo", "mean", "tags_all"}
    assert list(tmp_path.iterdir()) == [path]


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


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(model, folder, *rest, **options):
        folder.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(saved_model, "write_saved_model", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export_saved_model(models.dense(), tmp_path / "new" / "model", version=1)
    assert list(tmp_path.iterdir()) == []


def test_a_stateful_layer_is_refused_by_name(tmp_path):
    inputs = keras.Input(batch_shape=(2, 5, 3))
    inner = keras.Model(inputs, keras.layers.GRU(2, stateful=True, name="counter")(inputs))
    outer = keras.Model(inputs, inner(inputs))
    with pytest.raises(ValueError, match=r'counter" \(GRU\) is stateful: .* signature step'):
        export_saved_model(outer, tmp_path / "model")
