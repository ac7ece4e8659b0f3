import shutil

import pytest

from keras_norm.export import RunnerError, open_runner
from keras_norm.export.formats import artifact_format
from keras_norm.export.formats.saved_model.saved_model_runner import SavedModelRunner
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from tests.export import models

TFLITE_HEADER = b"\x1c\x00\x00\x00TFL3"


def test_the_content_of_the_path_selects_the_runner(model, exported, tmp_path):
    with open_runner(exported["saved_model"], model) as run:
        assert isinstance(run, SavedModelRunner)
    renamed = shutil.copy(exported["tflite"], tmp_path / "version-3")
    with open_runner(renamed, model) as run:
        assert isinstance(run, TFLiteRunner)


@pytest.mark.parametrize("runtime", ["SavedModel", "SavedModel (C API)", "OpenVINO"])
def test_a_file_opens_in_the_runtime_of_a_name(runtime, model, exported, monkeypatch):
    monkeypatch.setattr(artifact_format, "is_installed", lambda extra: True)
    with open_runner(exported["saved_model"], model, runtime=runtime) as run:
        assert run.name == runtime


def test_a_runtime_that_cannot_run_the_file_is_refused(exported):
    expected = r"runtimes that can run .* are TFLite\. Received: runtime='ONNX'"
    with pytest.raises(ValueError, match=expected):
        open_runner(exported["tflite"], runtime="ONNX")


def test_a_runner_takes_the_names_of_the_keras_model(runners):
    data = models.tagger_data(2, 5)
    own = {"features of it": data["features_of_it"], "file": data["file"]}
    for run in runners.values():
        models.assert_same(run(own), run(data), atol=0)
    with pytest.raises(ValueError, match="takes the inputs features_of_it, file; received"):
        runners["tflite"]({**data, "features of it": data["features_of_it"]})


@pytest.mark.parametrize("artifact", [None, 3, b"folder"])
def test_an_artifact_that_is_not_a_path_is_refused(artifact):
    with pytest.raises(ValueError, match="artifact must be the path of an exported file; received"):
        open_runner(artifact)


def test_a_signature_name_that_is_not_a_string_is_refused(exported):
    with pytest.raises(ValueError, match="signature_name must be a string; received None"):
        open_runner(exported["tflite"], signature_name=None)


def test_an_export_of_another_model_is_refused(exported):
    with pytest.raises(RunnerError, match=r"not an export of this model: .* x; received features"):
        open_runner(exported["saved_model"], models.dense())


def test_a_path_as_the_model_is_refused_before_the_file_is_opened(exported):
    with pytest.raises(ValueError, match=r"received str\. Load the model"):
        open_runner(exported["saved_model"], "model.keras")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "no such file or folder"),
        ("missing.tflite", "no such file"),
        ("model.txt", "is not a SavedModel folder, a TFLite file or an ONNX file"),
        ("folder", "is not a SavedModel: .* nor numbered versions"),
        ("model.keras", r"is a Keras model, .* keras.saving.load_model\(path\)"),
        ("damaged", "saved_model.pb is not a SavedModel, or is damaged"),
        ("damaged.tflite", "TFLite .*damaged.tflite: "),
        ("cut.tflite", "TFLite .*cut.tflite: "),
    ],
)
def test_foreign_and_damaged_files_raise_one_line(tmp_path, name, message):
    (tmp_path / "model.txt").write_text("no model")
    (tmp_path / "model.keras").write_text("an archive")
    (tmp_path / "folder").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "saved_model.pb").write_bytes(b"\xff" * 30)
    (tmp_path / "damaged.tflite").write_bytes(b"\x00" * 30)
    (tmp_path / "cut.tflite").write_bytes(TFLITE_HEADER)
    with pytest.raises(RunnerError, match=message) as caught:
        open_runner(tmp_path / name)
    assert "\n" not in str(caught.value)
