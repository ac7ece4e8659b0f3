import shutil

import pytest

from keras_norm.export import RunnerError, open_runner
from keras_norm.export.formats import artifact_format
from tests.export import models

TFLITE_HEADER = b"\x1c\x00\x00\x00TFL3"


@pytest.mark.parametrize(
    ("kind", "runtime", "name"),
    [
        ("saved_model", None, "SavedModel"),
        ("saved_model", "SavedModel (C API)", "SavedModel (C API)"),
        ("saved_model", "OpenVINO", "OpenVINO"),
        ("tflite", None, "TFLite"),  # the content of the file selects the runtime
    ],
)
def test_a_file_opens_in_its_runtime_or_in_the_named_runtime(
    kind, runtime, name, model, exported, tmp_path, monkeypatch
):
    monkeypatch.setattr(artifact_format, "is_installed", lambda extra: True)
    file = exported[kind]
    if kind == "tflite":
        file = shutil.copy(file, tmp_path / "version-3")
    with open_runner(file, model, runtime=runtime) as run:
        assert run.name == name


def test_a_runner_takes_the_names_of_the_keras_model(runners):
    data = models.tagger_data(2, 5)
    own = {"features of it": data["features_of_it"], "file": data["file"]}
    for run in runners.values():
        models.assert_same(run(own), run(data), atol=0)
    with pytest.raises(ValueError, match="takes the inputs features_of_it, file; received"):
        runners["tflite"]({**data, "features of it": data["features_of_it"]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"artifact": None}, "artifact must be the path of an exported file; received"),
        ({"artifact": b"folder"}, "artifact must be the path of an exported file; received"),
        ({"signature_name": None}, "signature_name must be a string; received None"),
        ({"runtime": "ONNX"}, r"that can run .* are TFLite\. Received: runtime='ONNX'"),
        ({"model": models.dense()}, "not an export of this model: .* x; received features"),
        ({"model": "model.keras"}, r"received str\. Load the model"),
    ],
)
def test_wrong_arguments_are_refused(exported, arguments, message):
    with pytest.raises((ValueError, RunnerError), match=message):
        open_runner(**{"artifact": exported["tflite"]} | arguments)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "no such file or folder"),
        ("missing.tflite", "no such file"),
        ("model.txt", "is not a SavedModel folder, a TFLite file or an ONNX file"),
        ("folder", "is not a SavedModel: .* nor numbered versions"),
        ("model.keras", r"is a Keras model, .* keras.saving.load_model\(path\)"),
        ("cut.tflite", "TFLite .*cut.tflite: "),
    ],
)
def test_foreign_and_damaged_files_raise_one_line(tmp_path, name, message):
    (tmp_path / "model.txt").write_text("no model")
    (tmp_path / "model.keras").write_text("an archive")
    (tmp_path / "folder").mkdir()
    (tmp_path / "cut.tflite").write_bytes(TFLITE_HEADER)
    with pytest.raises(RunnerError, match=message) as caught:
        open_runner(tmp_path / name)
    assert "\n" not in str(caught.value)
