"""The example and docs/serving.md, on the stand-in for a server."""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from examples import serving
from keras_norm.export import Step, export_saved_model
from keras_norm.export.model.keras_runner import KerasRunner
from tests.examples import servers
from tests.export import models

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "serving.md"


@pytest.fixture(scope="module")
def model():
    return models.recurrent()


@pytest.fixture(scope="module")
def ports(model, tmp_path_factory):
    folder = export_saved_model(model, tmp_path_factory.mktemp("served"), version=1, step=True)
    with servers.stand_in({"lstm": {1: folder}}, {}) as ports:
        yield ports


def sequences(batch, time):
    return {"x": np.random.default_rng(0).normal(size=(batch, time, 3)).astype("float32")}


def asked(kind, ports, outputs, *signature):
    """The example's function for one of the two ports."""
    rest, rpc = ports
    if kind == "rest":
        return serving.rest(f"http://127.0.0.1:{rest}", "lstm", outputs, *signature)
    return serving.rpc(f"127.0.0.1:{rpc}", "lstm", *signature)


@pytest.mark.parametrize("kind", ["rest", "rpc"])
def test_answers_are_keras_at_any_batch_and_length(kind, ports, model):
    run = KerasRunner(model)
    outputs = {name: array.dtype for name, array in run(sequences(2, 5)).items()}
    for shape in ((1, 4), (7, 9), (2, 1)):
        x = sequences(*shape)
        models.assert_same(asked(kind, ports, outputs)(x), run(x))


@pytest.mark.parametrize("kind", ["rest", "rpc"])
def test_the_step_streams(kind, ports, model):
    step, inputs = Step(model), sequences(2, 5)
    outputs = dict.fromkeys([*step.sequence_outputs, *step.states], "float32")
    actual = step.over_time(asked(kind, ports, outputs, "step"), inputs)
    models.assert_same(actual, KerasRunner(model)(inputs))


def test_what_a_server_refuses_it_says_why(ports):
    with pytest.raises(RuntimeError, match="Servable not found for request"):
        serving.rest(f"http://127.0.0.1:{ports[0]}", "other", {})({})


def test_the_example_exports_what_it_then_checks(tmp_path, capsys):
    to = f"--to={tmp_path}"
    assert serving.main(["export", to, "--epochs=1"]) == 0
    assert f"source={tmp_path / 'digits'},target=/models/digits" in capsys.readouterr().out
    with servers.stand_in({"digits": {1: tmp_path / "digits" / "1"}}, {}) as (rest, rpc):
        ports = [f"--rest=http://127.0.0.1:{rest}", f"--grpc=127.0.0.1:{rpc}"]
        assert serving.main(["check", to, *ports]) == 0
    assert "TensorFlow Serving (gRPC)" in capsys.readouterr().out


def assert_says(shown, answer):
    """Whether the answer is what the page shows, up to the last digits of its numbers."""
    if isinstance(shown, dict):
        assert list(shown) == list(answer)
        shown, answer = list(shown.values()), list(answer.values())
    if isinstance(shown, list):
        for one, other in zip(shown, answer, strict=True):
            assert_says(one, other)
    elif isinstance(shown, float):
        assert answer == pytest.approx(shown, rel=1e-4)
    else:
        assert answer == shown


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_every_block_of_the_page_that_needs_no_server_of_its_own_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, said, ports = {}, "", {}
    version = tmp_path / "served" / "tagger" / "1"
    with contextlib.ExitStack() as stack:
        for kind, block in re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL):
            if version.is_dir() and not ports:
                running = servers.stand_in({"tagger": {1: version}}, {"tagger": {"stable": 1}})
                rest, rpc = stack.enter_context(running)
                ports = {
                    "localhost:8501": f"127.0.0.1:{rest}",
                    "localhost:8500": f"127.0.0.1:{rpc}",
                }
            for documented, real in ports.items():
                block = block.replace(documented, real)
            if kind == "python":
                exec(compile(block, PAGE.name, "exec"), names)
            elif block.startswith("curl"):
                said = subprocess.run(
                    ["bash", "-c", block], check=True, capture_output=True, text=True
                ).stdout
            elif kind == "json":
                assert_says(json.loads(block), json.loads(said))
            elif kind == "pbtxt" and "config" in block:
                whole = block if "config_list" in block else f"model_config_list {{ {block} }}"
                text_format.Parse(whole, model_server_config_pb2.ModelServerConfig())
            elif kind == "text":
                assert block == said
    assert (tmp_path / "served" / "tagger" / "2" / "saved_model.pb").is_file()
