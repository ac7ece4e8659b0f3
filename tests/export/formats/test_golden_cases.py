"""Golden cases of exported files, and the verification of a file before it is written."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import (
    VerificationError,
    check,
    export_saved_model,
    export_tflite,
    open_runner,
)
from keras_norm.export.formats.saved_model import export_saved_model as saved_model
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.tflite import export_tflite as tflite
from keras_norm.export.formats.verification import verify_saved_model
from keras_norm.export.model.judge import judge_for_export
from keras_norm_verify import GoldenCasesError, read_golden_cases, verify
from keras_norm_verify.verify import print_result
from tests.export import models
from tests.export.own_layers import Sampled


@pytest.mark.parametrize("kind", ["saved_model", "tflite"])
def test_an_exported_file_has_golden_cases_and_passes(exported, kind):
    stored = read_golden_cases(exported[kind])
    assert stored.reference.startswith("the outputs of the Keras model")
    assert {"keras", "tensorflow", "numpy"} <= set(stored.versions)
    ways = ("", ", padded right", ", padded left", ", with gaps")
    assert {f"batch 3, length 7{way}" for way in ways} < {case.name for case in stored.cases}
    assert verify(exported[kind]) == []


@pytest.mark.parametrize(
    ("quantize", "reference"),
    [
        (
            "dynamic",
            "the file's outputs at export (in 8 bits, they differ from the Keras model's outputs)",
        ),
        ("float16", 'the outputs of the Keras model "m" to the precision of float16'),
    ],
)
def test_a_verification_says_what_a_quantized_file_is_compared_with(
    quantize, reference, tmp_path, capsys
):
    model = models.dense()
    path = export_tflite(model, tmp_path / "m.tflite", quantize=quantize)
    assert print_result(str(path)) == 0
    expected = reference.replace('"m"', f'"{model.name}"')
    assert f"m.tflite computes {expected}, in " in capsys.readouterr().out


def test_golden_cases_inside_a_file_need_no_second_file(tmp_path):
    path = export_tflite(models.dense(), tmp_path / "m.tflite", golden_cases="inside")
    assert list(tmp_path.iterdir()) == [path]
    assert verify(path) == []
    path.write_bytes(path.read_bytes().replace(b"serving_default", b"serving_defaulT", 1))
    assert "was changed" in verify(path)[0]


def test_an_overwritten_file_loses_its_golden_cases(tmp_path):
    path = export_tflite(models.dense(), tmp_path / "m.tflite")
    export_tflite(models.dense(), path, overwrite=True, golden_cases=False)
    assert list(tmp_path.iterdir()) == [path]
    saved = export_saved_model(models.dense(), tmp_path / "saved", golden_cases=False)
    for file in (path, saved):
        with pytest.raises(GoldenCasesError, match="has no golden cases"):
            verify(file)


def test_an_unknown_value_of_golden_cases_is_refused(tmp_path):
    with pytest.raises(ValueError, match="True, False or \"inside\"; received 'beside'"):
        export_tflite(models.dense(), tmp_path / "m.tflite", golden_cases="beside")


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float64"])
def test_golden_cases_pass_in_every_precision_and_outputs_keep_it(policy, tmp_path):
    inputs = keras.Input((None, 3), name="x", dtype="bfloat16" if "bfloat" in policy else None)
    layer = keras_norm.LayerNormSimpleRNN(3, dtype=policy, name="y")
    path = export_saved_model(keras.Model(inputs, layer(inputs)), tmp_path / "saved", step=False)
    assert SavedModelFile(path).read_signature()[1]["y"].dtype == policy.removeprefix("mixed_")
    assert len(read_golden_cases(path).cases) == 2
    assert verify(path) == []


def test_a_wrong_saved_model_is_not_written(tmp_path, monkeypatch):
    """The writer gets another model, as if a converter were wrong."""
    write, other = saved_model.write_saved_model, models.dense()
    monkeypatch.setattr(saved_model, "write_saved_model", lambda _, *rest: write(other, *rest))
    with pytest.raises(VerificationError, match="the outputs of the SavedModel differ"):
        export_saved_model(models.dense(), tmp_path / "saved", step=False)
    assert list(tmp_path.iterdir()) == []


def test_deterministic_outputs_beside_a_random_output_are_compared(tmp_path):
    def build():
        inputs = keras.Input((3,), name="x")
        hidden = keras.layers.Dense(4)(inputs)
        return keras.Model(inputs, {"y": keras.layers.Dense(2)(hidden), "z": Sampled()(hidden)})

    model, other = build(), build()
    path = export_saved_model(model, tmp_path / "saved")
    assert not verify_saved_model(path, judge_for_export(model))
    with pytest.raises(VerificationError, match="'y'"):
        verify_saved_model(path, judge_for_export(other))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Sampled(), "random in inference"),
        (lambda x: keras.ops.log(-keras.ops.square(x) - 1.0), "Give real data: samples="),
    ],
)
def test_a_model_without_comparable_outputs_has_no_golden_cases(layer, message, tmp_path, caplog):
    path = export_saved_model(models.of(layer, (3,)), tmp_path / "saved")
    (warning,) = caplog.records
    assert (warning.levelname, message in warning.getMessage()) == ("WARNING", True)
    with pytest.raises(GoldenCasesError, match="has no golden cases"):
        verify(path)


def test_an_interrupt_leaves_neither_file_nor_golden_cases(tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tflite, "write_golden_cases", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export_tflite(models.dense(), tmp_path / "m.tflite")
    assert list(tmp_path.iterdir()) == []


def test_an_argmax_changed_by_float16_is_expected(tmp_path):
    """The scores differ by less than float16 can represent: export and verify accept it."""
    inputs = keras.Input((3,), name="x")
    scores = keras.layers.Dense(40, name="scores")(inputs)
    label = keras.layers.Lambda(lambda s: tf.argmax(s, -1), output_shape=(), name="label")
    model = keras.Model(inputs, [scores, label(scores)])
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(3, 1)) + 1e-4 * rng.normal(size=(3, 40))
    model.get_layer("scores").set_weights([kernel, np.zeros(40)])
    path = export_tflite(model, tmp_path / "m.tflite", quantize="float16")
    assert verify(path) == []
    x = rng.normal(size=(20, 3)).astype("float32")
    with open_runner(path) as run:
        assert (run({"x": x})["label"] != model.predict(x, verbose=0)[1]).any()
    assert check(model, path, x)
