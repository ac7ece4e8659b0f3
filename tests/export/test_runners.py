import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export import RunnerError, export_saved_model, export_tflite, open_runner
from keras_norm.export.runners import CApiRunner, KerasRunner, SavedModelRunner, TFLiteRunner
from tests.export import models

KINDS = ("saved_model", "c_api", "tflite")


@pytest.fixture(scope="module")
def model():
    return models.tagger()


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("with a space")
    return {
        "saved_model": export_saved_model(model, folder / "served", version=1),
        "tflite": export_tflite(model, folder / "model.tflite"),
    }


@pytest.fixture(scope="module")
def runners(exported):
    with (
        SavedModelRunner(exported["saved_model"]) as saved_model,
        CApiRunner(exported["saved_model"]) as c_api,
        TFLiteRunner(exported["tflite"]) as tflite,
    ):
        yield {"saved_model": saved_model, "c_api": c_api, "tflite": tflite}


@pytest.mark.parametrize("kind", KINDS)
def test_every_runner_equals_keras_at_any_batch_and_length(model, runners, kind):
    keras_runner = KerasRunner(model)
    for batch, time in ((1, 4), (7, 9), (2, 1), (1, 4)):
        data = models.tagger_data(batch, time)
        models.assert_same(runners[kind](data), keras_runner(data))


@pytest.mark.parametrize(
    ("kind", "imported"), [("saved_model", {"tensorflow"}), ("c_api", set()), ("tflite", set())]
)
def test_workers_import_only_what_they_are_there_to_test(runners, kind, imported):
    runners[kind](models.tagger_data(1, 2))
    named = {"tensorflow", "keras", "tf_keras", "keras_norm"}
    assert runners[kind].modules() & named == imported


def test_the_saved_model_worker_runs_the_lstm_of_this_package(tmp_path):
    model = models.layer_norm_lstm()
    data = {"x": np.random.default_rng(0).normal(size=(3, 5, 3))}
    with SavedModelRunner(export_saved_model(model, tmp_path / "model")) as run:
        models.assert_same(run(data), KerasRunner(model)(data))


@pytest.mark.parametrize("kind", KINDS)
def test_runners_list_their_operations(runners, kind):
    op = "FULLY_CONNECTED" if kind == "tflite" else "MatMul"
    assert runners[kind].ops()[op]


def test_reports_can_tell_runners_apart(model, runners):
    names = [r.name for r in (KerasRunner(model), *runners.values())]
    assert names == ["Keras", "SavedModel", "SavedModel (C API)", "TFLite"]


@pytest.mark.parametrize("kind", KINDS)
def test_types_that_lose_nothing_are_converted(model, runners, kind):
    data = models.tagger_data(2, 3)
    wide = {"features_of_it": data["features_of_it"].astype("float64"), "file": data["file"] + 0}
    wide["file"] = wide["file"].astype("int64")
    models.assert_same(runners[kind](wide), KerasRunner(model)(data))


@pytest.mark.parametrize("kind", ["keras", *KINDS])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file": np.ones((2, 3))}, r'input "file" has the type int32; received float64'),
        ({"file": np.full((2, 3), 2**40)}, r'input "file" has the type int32; received int64'),
        ({"file": np.array([["a"]])}, r'input "file" has the type int32; received <U1'),
        (
            {"features_of_it": np.ones((2, 3, 4))},
            r"has the shape \(any, any, 3\); received \(2, 3, 4\)",
        ),
        ({"file": np.ones(2, "int32")}, r"has the shape \(any, any\); received \(2,\)"),
        ({"other": np.ones(2)}, "takes the inputs features_of_it, file; received .*other"),
    ],
    ids=["float", "too large", "text", "features", "rank", "name"],
)
def test_wrong_data_is_refused(model, runners, kind, change, message):
    run = KerasRunner(model) if kind == "keras" else runners[kind]
    with pytest.raises(ValueError, match=message):
        run(models.tagger_data(2, 3) | change)


def test_text_is_refused():
    inputs = keras.Input((), name="words", dtype="string")
    run = KerasRunner(keras.Model(inputs, keras.layers.StringLookup(vocabulary=["a"])(inputs)))
    with pytest.raises(ValueError, match='input "words" takes text'):
        run({"words": np.array(["a"])})


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_run_is_one_line_and_the_next_one_works(model, runners, kind):
    good = models.tagger_data(2, 3)
    bad = good | {"file": np.ones((2, 4), "int32")}  # the two inputs differ in length
    with pytest.raises(RunnerError, match=r"^[^\n]+$"):
        runners[kind](bad)
    models.assert_same(runners[kind](good), KerasRunner(model)(good))


DTYPES = ("float16", "float32", "float64", "bfloat16", "int32", "int64", "bool")


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    """A model that gives back one input of every type, and its SavedModel."""
    inputs = [keras.Input((3,), name=f"{dtype}_in", dtype=dtype) for dtype in DTYPES]
    outputs = {d: keras.layers.Identity(dtype=d)(x) for d, x in zip(DTYPES, inputs, strict=True)}
    model = keras.Model(inputs, outputs)
    return model, export_saved_model(model, tmp_path_factory.mktemp("echo") / "model")


@pytest.mark.parametrize("runner", [SavedModelRunner, CApiRunner])
def test_every_type_passes_and_bfloat16_comes_as_float32(echo, runner):
    model, path = echo
    data = {f"{dtype}_in": np.array([[0.1, 2.0, -3.0]]).astype("f4") for dtype in DTYPES}
    for dtype in ("int32", "int64", "bool"):
        data[f"{dtype}_in"] = data[f"{dtype}_in"].astype(dtype)
    with runner(path) as run:
        actual = run(data)
    models.assert_same(actual, KerasRunner(model)(data), atol=0)
    expected = {dtype: "float32" if dtype == "bfloat16" else dtype for dtype in DTYPES}
    assert {dtype: actual[dtype].dtype.name for dtype in DTYPES} == expected


def test_open_runner_picks_by_path(model, exported):
    with open_runner(exported["saved_model"], model) as run:
        assert isinstance(run, SavedModelRunner)
    with open_runner(exported["tflite"], model) as run:
        assert isinstance(run, TFLiteRunner)


def test_open_runner_takes_the_highest_version(exported, tmp_path):
    for version in ("2", "10"):
        shutil.copytree(exported["saved_model"], tmp_path / version)
    (tmp_path / "notes").mkdir()
    with open_runner(tmp_path) as run:
        assert run.path == tmp_path / "10"


def test_open_runner_refuses_an_export_of_another_model(exported):
    with pytest.raises(RunnerError, match=r"is no export of this model: .* x; received features"):
        open_runner(exported["saved_model"], models.dense())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "no such file or folder"),
        ("missing.tflite", "no such file"),
        ("model.txt", "is no SavedModel .* and no .tflite file"),
        ("folder", "is no SavedModel .* and no .tflite file"),
        ("damaged", "saved_model.pb is not a SavedModel, or is damaged"),
        ("damaged.tflite", "TFLite .*damaged.tflite: "),
        ("empty.tflite", "TFLite .*empty.tflite: "),
    ],
)
def test_foreign_and_damaged_files_give_one_clear_line(tmp_path, name, message):
    (tmp_path / "model.txt").write_text("no model")
    (tmp_path / "folder").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "saved_model.pb").write_bytes(b"\xff" * 30)
    (tmp_path / "damaged.tflite").write_bytes(b"\x00" * 30)
    (tmp_path / "empty.tflite").touch()
    with pytest.raises(RunnerError, match=message) as caught:
        open_runner(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("runner", [SavedModelRunner, CApiRunner])
def test_a_saved_model_without_its_variables_gives_one_clear_line(exported, tmp_path, runner):
    shutil.copytree(exported["saved_model"], tmp_path / "model")
    shutil.rmtree(tmp_path / "model" / "variables")

    def load_and_run():
        with runner(tmp_path / "model") as run:  # the C API loads it, and misses them at the run
            run(models.tagger_data(1, 2))

    with pytest.raises(RunnerError, match=r"^SavedModel[^\n]* [^\n]*variable[^\n]*$"):
        load_and_run()


def test_a_saved_model_of_any_rank_is_refused(tmp_path):
    module = tf.Module()
    module.f = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec(None, name="x")])
    signatures = {"serving_default": module.f}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
    with pytest.raises(RunnerError, match='input "x" has no fixed number of axes'):
        SavedModelRunner(tmp_path / "model")


def test_half_a_tflite_file_gives_one_clear_line(exported, tmp_path):
    content = exported["tflite"].read_bytes()
    (tmp_path / "half.tflite").write_bytes(content[: len(content) // 2])
    with pytest.raises(RunnerError, match=r"^TFLite .*half.tflite: [^\n]+$"):
        TFLiteRunner(tmp_path / "half.tflite")
