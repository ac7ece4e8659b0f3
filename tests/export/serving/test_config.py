import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from keras_norm.export.serving import api, write_batching_parameters, write_models_config

config_pb2 = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2")


def read(path):
    """The file as the server parses it."""
    config = text_format.Parse(path.read_text(), config_pb2.ModelServerConfig())
    return {model.name: model for model in config.model_config_list.config}


def test_every_model_has_its_folder_and_the_newest_version(tmp_path):
    folders = {"digits": "/models/digits", 'a "model"': "gs://bucket/other"}
    found = read(write_models_config(tmp_path / "models.config", folders))
    assert {name: model.base_path for name, model in found.items()} == folders
    assert {model.model_platform for model in found.values()} == {"tensorflow"}
    assert not any(model.HasField("model_version_policy") for model in found.values())


def test_versions_and_labels_are_the_models_own(tmp_path):
    path = write_models_config(
        tmp_path / "models.config",
        {"digits": "/models/digits", "other": "/models/other"},
        versions={"digits": [1, 2]},
        labels={"digits": {"stable": 1, "canary": 2}},
    )
    digits, other = read(path).values()
    assert list(digits.model_version_policy.specific.versions) == [1, 2]
    assert dict(digits.version_labels) == {"stable": 1, "canary": 2}
    assert not other.HasField("model_version_policy")
    assert not other.version_labels


def test_a_rewritten_config_leaves_nothing_of_the_old_one(tmp_path):
    write_models_config(tmp_path / "models.config", {"one": "/models/one"})
    assert list(read(write_models_config(tmp_path / "models.config", {"two": "/two"}))) == ["two"]
    assert [file.name for file in tmp_path.iterdir()] == ["models.config"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": {}}, "models: the models are none"),
        ({"models": {"a": "served/a"}}, "wants an absolute path .* received served/a"),
        ({"models": {"a": "/a"}, "versions": {"b": [1]}}, "b: the models are a"),
        (
            {"models": {"a": "/a"}, "versions": {"a": [1]}, "labels": {"a": {"new": 2}}},
            "a: the label new means version 2, which is not served",
        ),
    ],
)
def test_what_the_server_would_refuse_is_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        write_models_config(tmp_path / "models.config", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_the_config_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(api.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "\.\[serving\]"'):
        write_models_config(tmp_path / "models.config", {"a": "/a"})


@pytest.fixture(scope="module")
def batching():
    """BatchingParameters, which tensorflow-serving-api lacks, as Serving documents its fields."""
    file = descriptor_pb2.FileDescriptorProto(name="batching.proto", package="test")
    integer = file.message_type.add(name="Integer")
    integer.field.add(name="value", number=1, type=3, label=1)
    message = file.message_type.add(name="BatchingParameters")
    names = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
    for number, name in enumerate(names, 1):
        message.field.add(name=name, number=number, type=11, type_name=".test.Integer", label=1)
    message.field.add(name="allowed_batch_sizes", number=6, type=3, label=3)
    message.field.add(name="pad_variable_length_inputs", number=7, type=8, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("test.BatchingParameters")
    return message_factory.GetMessageClass(found)


def test_batching_parameters_are_read_as_they_were_given(tmp_path, batching):
    path = write_batching_parameters(
        tmp_path / "batching.config",
        max_batch_size=32,
        batch_timeout_micros=0,
        num_batch_threads=4,
        allowed_batch_sizes=(8, 32),
        pad_variable_length_inputs=True,
    )
    found = text_format.Parse(path.read_text(), batching())
    assert found.max_batch_size.value == 32
    assert found.HasField("batch_timeout_micros")
    assert found.num_batch_threads.value == 4
    assert not found.HasField("max_enqueued_batches")
    assert list(found.allowed_batch_sizes) == [8, 32]
    assert found.pad_variable_length_inputs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_batch_size": 0}, "max_batch_size must be at least 1; received 0"),
        ({"batch_timeout_micros": -1}, "batch_timeout_micros must be at least 0; received -1"),
        ({"num_batch_threads": 0}, "num_batch_threads must be at least 1; received 0"),
        ({"allowed_batch_sizes": (8, 16)}, r"ascend to max_batch_size, 32; received \[8, 16\]"),
        ({"allowed_batch_sizes": (32, 8, 32)}, "ascend to max_batch_size"),
    ],
)
def test_numbers_that_the_server_would_refuse_are_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        write_batching_parameters(
            tmp_path / "file", **{"max_batch_size": 32, "batch_timeout_micros": 0} | arguments
        )
