"""`keras-norm export`."""

import dataclasses
import functools

import keras
import pytest

from keras_norm.export import ConversionError
from keras_norm.export.formats.format_registry import FORMATS
from tests.export import models
from tests.export.keras_norm_cli.arguments import BOTH, refused


def test_a_recurrent_model_is_exported_with_its_step(run, tmp_path):
    models.stack(keras.layers.SimpleRNN(2)).save(tmp_path / "rnn.keras")
    status, out, _ = run("export", tmp_path / "rnn.keras", "--to", tmp_path, *BOTH)
    assert status == 0
    assert out.count("serving_default, step") == out.count("kB") == 2


def stateful():
    inputs = keras.Input(batch_shape=(2, 4, 3), name="x")
    return inputs, keras.layers.SimpleRNN(2, stateful=True)


def determinant():
    return keras.Input((3, 3)), keras.ops.det


@pytest.mark.parametrize(
    ("build", "message", "removed"),
    [
        (determinant, "TFLite has no builtin operation for MatrixDeterminant", True),
        (stateful, "is stateful", False),
    ],
)
def test_a_failed_format_removes_the_other_formats(run, tmp_path, build, message, removed):
    inputs, layer = build()
    keras.Model(inputs, layer(inputs)).save(tmp_path / "m.keras")
    said = refused(run("export", tmp_path / "m.keras", "--to", tmp_path / "out", *BOTH))
    assert message in said
    assert said.endswith("Nothing was written.\n") == removed
    assert not (tmp_path / "out").exists()


def test_a_format_that_fails_last_removes_the_files_of_the_others(run, tmp_path, monkeypatch):
    saved_model = FORMATS["saved_model"]

    @functools.wraps(saved_model.export)
    def fail(*arguments, **options):
        assert (tmp_path / "out" / "model.tflite").exists()
        raise ConversionError("no converter")

    monkeypatch.setitem(FORMATS, "saved_model", dataclasses.replace(saved_model, export=fail))
    said = refused(run("export", "{}/model.keras", "--to", tmp_path / "out", *BOTH))
    assert said.endswith("no converter. Nothing was written.\n")
    assert not (tmp_path / "out").exists()


def test_export_takes_samples_for_the_warmup(run, tmp_path):
    pytest.importorskip("tensorflow_serving")
    to = tmp_path / "served"
    options = ("--warmup", "--samples", "{}/data.npz", "--no-golden-cases")
    status, _, err = run("export", "{}/model.keras", "--to", to, *options)
    assert (status, err) == (0, "")
    assert not (to / "saved_model" / "assets.extra" / "golden.npz").exists()
    assert (to / "saved_model" / "assets.extra" / "tf_serving_warmup_requests").stat().st_size


def test_a_second_run_needs_force_or_another_version(run, tmp_path):
    export = ("export", "{}/model.keras", "--to", tmp_path / "out", "--no-step")
    assert run(*export)[0] == 0
    assert "--force" in refused(run(*export))
    assert run(*export, "--force")[0] == 0
    for version in (1, 2):
        versioned = ("--to", tmp_path / "versions", "--no-step", *BOTH, "--version", version)
        status, out, err = run("export", "{}/model.keras", *versioned)
        assert (status, err, out.count("kB")) == (0, "", 2)
        folder = tmp_path / "versions" / "saved_model" / str(version)
        assert f"{folder}  " in out
        assert (folder / "saved_model.pb").is_file()
    assert {p.name for p in (tmp_path / "versions").iterdir()} == {
        "saved_model",
        *(f"model-{version}.tflite{part}" for version in (1, 2) for part in ("", ".golden.npz")),
    }


def test_an_existing_version_and_its_tflite_file_are_not_changed(run, tmp_path):
    (tmp_path / "saved_model" / "1").mkdir(parents=True)
    (tmp_path / "model-1.tflite").write_text("theirs")
    export = ("export", "{}/model.keras", "--to", tmp_path, "--version", 1, *BOTH, "--force")
    assert "higher --version" in refused(run(*export))
    assert (tmp_path / "model-1.tflite").read_text() == "theirs"
