"""Run examples/serving.py and the guides about serving with a fake TensorFlow Serving."""

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
from tests.export import models, text_models

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "guides" / name for name in ("serving.md", "serving_clients.md")]


@pytest.fixture(scope="module")
def model():
    return models.recurrent()


@pytest.fixture(scope="module")
def ports(model, tmp_path_factory):
    folder = export_saved_model(model, tmp_path_factory.mktemp("served"), version=1, step=True)
    with servers.fake_server({"lstm": {1: folder}}) as ports:
        yield ports


def sequences(batch, time):
    return {"x": np.random.default_rng(0).normal(size=(batch, time, 3)).astype("float32")}


def client(kind, ports, outputs, *signature):
    """Return the example's function for REST or gRPC."""
    rest, rpc = ports
    if kind == "rest":
        return serving.rest(f"http://127.0.0.1:{rest}", "lstm", outputs, *signature)
    return serving.rpc(f"127.0.0.1:{rpc}", "lstm", *signature)


@pytest.mark.parametrize("kind", ["rest", "rpc"])
def test_responses_equal_keras_at_any_batch_size_and_length(kind, ports, model):
    run = KerasRunner(model)
    outputs = {name: array.dtype for name, array in run(sequences(2, 5)).items()}
    for shape in ((1, 4), (7, 9), (2, 1)):
        x = sequences(*shape)
        models.assert_same(client(kind, ports, outputs)(x), run(x))


@pytest.mark.parametrize("kind", ["rest", "rpc"])
def test_the_step_signature_streams(kind, ports, model):
    step, inputs = Step(model), sequences(2, 5)
    outputs = dict.fromkeys([*step.sequence_outputs, *step.states], "float32")
    actual = step.over_time(client(kind, ports, outputs, "step"), inputs)
    models.assert_same(actual, KerasRunner(model)(inputs))


def test_texts_are_sent_to_the_server(tmp_path):
    model = text_models.classifier()
    folder = export_saved_model(model, tmp_path / "served", version=1)
    texts = {"review": np.array([b"a good film", "é".encode(), b""], object)}
    with servers.fake_server({"lstm": {1: folder}}) as ports:
        for kind in ("rest", "rpc"):
            run = client(kind, ports, {"kind": "float32"})
            models.assert_same(run(texts), KerasRunner(model)(texts))


def test_an_unknown_model_raises_with_the_reason_of_the_server(ports):
    with pytest.raises(RuntimeError, match="Servable not found for request"):
        serving.rest(f"http://127.0.0.1:{ports[0]}", "other", {})({})


def test_the_example_exports_a_model_and_checks_its_server(tmp_path, capsys, check_few):
    check_few(serving)
    to = f"--to={tmp_path}"
    assert serving.main(["export", to, "--epochs=1"]) == 0
    assert f"source={tmp_path / 'digits'},target=/models/digits" in capsys.readouterr().out
    with servers.fake_server({"digits": {1: tmp_path / "digits" / "1"}}) as (rest, rpc):
        ports = [f"--rest=http://127.0.0.1:{rest}", f"--grpc=127.0.0.1:{rpc}"]
        assert serving.main(["check", to, *ports]) == 0
    assert "TensorFlow Serving (gRPC)" in capsys.readouterr().out


def assert_response_equals(shown, response):
    """Compare a response with that of the page, up to the last digits of its numbers."""
    if isinstance(shown, dict):
        assert list(shown) == list(response)
        shown, response = list(shown.values()), list(response.values())
    if isinstance(shown, list):
        for one, other in zip(shown, response, strict=True):
            assert_response_equals(one, other)
    elif isinstance(shown, float):
        assert response == pytest.approx(shown, rel=1e-4)
    else:
        assert response == shown


def code_blocks():
    """Yield language and text of the pages' blocks, in the order of the pages."""
    for page in PAGES:
        yield from re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def assert_configuration_is_valid(text):
    """Parse a list of models, a model of such a list, or settings of the batches."""
    if "config" in text:
        whole = text if "config_list" in text else f"model_config_list {{ {text} }}"
        text_format.Parse(whole, model_server_config_pb2.ModelServerConfig())
    else:
        assert re.fullmatch(r"(\w+ \{ value: \d+ \}\n)+", text)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_blocks_of_the_pages_run(tmp_path, monkeypatch):
    shutil.copy(serving.__file__, tmp_path / "client.py")  # as the page says
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    names, output, ports = {}, None, {}
    version = tmp_path / "served" / "tagger" / "1"
    with contextlib.ExitStack() as stack:
        for kind, block in code_blocks():
            if version.is_dir() and not ports:
                running = servers.fake_server({"tagger": {1: version}})
                rest, rpc = stack.enter_context(running)
                ports = {
                    "localhost:8501": f"127.0.0.1:{rest}",
                    "localhost:8500": f"127.0.0.1:{rpc}",
                }
            for address, test_address in ports.items():
                block = block.replace(address, test_address)
            if kind == "python":
                exec(compile(block, "serving", "exec"), names)
            elif block.startswith("curl"):
                output = subprocess.run(
                    ["bash", "-c", block], check=True, capture_output=True, text=True
                ).stdout
            elif kind == "json":
                assert_response_equals(json.loads(block), json.loads(output))
            elif kind == "text" and "DT_FLOAT" in block:
                assert block == output
            elif kind == "text":
                assert_configuration_is_valid(block)
    assert names["report"]
    assert (tmp_path / "served" / "tagger" / "2" / "saved_model.pb").is_file()
