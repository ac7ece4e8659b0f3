import functools
import shutil

import pytest
import tensorflow as tf

from keras_norm.export.checks.artifacts import sources


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifacts") / "saved_model"
    module = tf.Module()
    module.serve = tf.function(
        lambda x: {"y": x * 2.0}, input_signature=[tf.TensorSpec((None,), "float32")]
    )
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})
    return folder


def test_a_saved_model_runs_in_two_runners(saved_model):
    for given in ([saved_model], str(saved_model)):
        assert [s.name for s in sources(given)] == ["saved_model", "saved_model (C API)"]


def test_the_highest_version_is_run(saved_model, tmp_path):
    for version in ("2", "10"):
        shutil.copytree(saved_model, tmp_path / "served" / version)
    source, _ = sources([tmp_path / "served"])
    with source.open() as runner:
        assert runner.path == tmp_path / "served" / "10"


def test_files_with_equal_names_are_named_by_their_paths(saved_model, tmp_path):
    other = tmp_path / "saved_model"
    shutil.copytree(saved_model, other)
    assert len({source.name for source in sources([saved_model, other])}) == 4


def test_a_function_has_its_own_name_in_the_report():
    def my_server(inputs):
        return inputs

    found = sources([my_server, functools.partial(my_server)])
    assert [(s.name, s.path) for s in found] == [("my_server", ""), ("partial", "")]


def test_equal_names_get_a_number(saved_model):
    def run(inputs):
        return inputs

    names = [source.name for source in sources([run, run, saved_model, saved_model])]
    assert names[:2] == ["run", "run (2)"]
    assert len(set(names)) == 6
