"""Both clients, on TensorFlow Serving where there is one and on the stand-in."""

import concurrent.futures
import http.server
import shutil
import socket
import threading

import keras
import numpy as np
import pytest

from keras_norm.export import (
    GrpcClient,
    RestClient,
    RunnerError,
    Step,
    check,
    export_saved_model,
)
from keras_norm.export.runners import KerasRunner
from keras_norm.export.serving import api, write_batching_parameters, write_models_config
from tests.export import models
from tests.export.serving import servers

pytest.importorskip("tensorflow_serving")


CLIENTS = (RestClient, GrpcClient)
TYPES = ("float32", "float64", "int32", "int64", "bool")
HALVES = ("float16", "bfloat16")


def echo(types):
    """A model that gives back one input of every type."""
    inputs = [keras.Input((None,), name=f"{dtype}_in", dtype=dtype) for dtype in types]
    outputs = {d: keras.layers.Identity(dtype=d)(x) for d, x in zip(types, inputs, strict=True)}
    return keras.Model(inputs, outputs)


def joined():
    """One output, and two inputs that must have one length."""
    inputs = [keras.Input((None, 2), name="a"), keras.Input((None, 1), name="b")]
    return keras.Model(inputs, keras.layers.Concatenate(name="both")(inputs))


def data(batch=3, time=5, seed=0):
    return {"x": np.random.default_rng(seed).normal(size=(batch, time, 3)).astype("float32")}


@pytest.fixture(scope="module")
def recurrent():
    return models.recurrent()


@pytest.fixture(scope="module")
def in_keras(recurrent):
    """What every answer is compared with."""
    return KerasRunner(recurrent)


@pytest.fixture(scope="module")
def served(recurrent, tmp_path_factory):
    """A folder with versions for every model."""
    folder = tmp_path_factory.mktemp("served")
    export_saved_model(recurrent, folder / "recurrent", version=1, step=True, warmup=data(8))
    for name, model in (("echo", echo(TYPES)), ("halves", echo(HALVES)), ("joined", joined())):
        export_saved_model(model, folder / name, version=1)
    return folder


@pytest.fixture(scope="module", params=["stand-in", "tensorflow_model_server"])
def server(request, served, tmp_path_factory):
    """Client class -> address."""
    names = sorted(path.name for path in served.iterdir())
    labels = {"recurrent": {"stable": 1}}
    if request.param == "stand-in":
        folders = {name: {1: served / name / "1"} for name in names}
        running = servers.stand_in(folders, labels)
    elif servers.BINARY and shutil.which(servers.BINARY):
        folder = tmp_path_factory.mktemp("config")
        running = servers.real_server(
            write_models_config(
                folder / "models.config",
                {name: served / name for name in names},
                versions={"recurrent": [1]},
                labels=labels,
            ),
            write_batching_parameters(
                folder / "batching.config", max_batch_size=64, batch_timeout_micros=1000
            ),
        )
    else:
        pytest.skip("no tensorflow_model_server on the PATH, and none in KERAS_NORM_SERVING")
    with running as (rest, rpc):
        yield {RestClient: f"http://127.0.0.1:{rest}", GrpcClient: f"127.0.0.1:{rpc}"}


@pytest.fixture(params=CLIENTS)
def connect(request, server):
    opened = []

    def connect(*arguments, **keywords):
        client = request.param(server[request.param], *arguments, **keywords)
        opened.append(client)
        return client

    connect.client = request.param
    yield connect
    for client in opened:
        client.close()


def test_answers_are_keras_at_any_batch_and_length(connect, in_keras):
    client = connect("recurrent")
    for batch, time in ((1, 4), (7, 9), (2, 1)):
        models.assert_same(client(data(batch, time)), in_keras(data(batch, time)))


def test_the_step_streams(connect, recurrent, in_keras):
    step = Step(recurrent)
    inputs = data(2, 4)
    actual = step.over_time(connect("recurrent", "step"), inputs)
    models.assert_same(actual, in_keras(inputs))


def test_every_number_arrives_as_it_was_sent(connect):
    """NaN and infinities too, and floats of random bits, which need all of their digits."""
    rng = np.random.default_rng(0)
    sent = {
        "float32_in": rng.integers(0, 2**32, (2, 300), "uint32").view("float32"),
        "float64_in": rng.normal(size=(2, 300)),
        "int32_in": rng.integers(-(2**31), 2**31, (2, 300), "int32"),
        "int64_in": rng.integers(-(2**63), 2**63 - 1, (2, 300), "int64"),
        "bool_in": rng.random((2, 300)) < 0.5,
    }
    sent["float32_in"][0, :3] = np.nan, np.inf, -np.inf
    received = connect("echo")(sent)
    for name, array in received.items():
        assert array.dtype == name
        # Serving's parser of JSON may miss the last digit of a float64, and of nothing else.
        rtol = 1e-15 if name == "float64" and connect.client is RestClient else 0
        np.testing.assert_allclose(array, sent[f"{name}_in"], rtol=rtol)


def test_grpc_carries_half_precision(server):
    with GrpcClient(server[GrpcClient], "halves") as client:
        received = client({f"{dtype}_in": np.array([[0.1, -3.0]], "float32") for dtype in HALVES})
    assert {name: array.dtype.name for name, array in received.items()} == {
        "float16": "float16",
        "bfloat16": "float32",
    }
    np.testing.assert_array_equal(received["float16"], np.array([[0.1, -3.0]], "float16"))
    np.testing.assert_allclose(received["bfloat16"], [[0.1, -3.0]], rtol=2**-8)


def test_rest_refuses_half_precision_before_anything_is_sent(server):
    with pytest.raises(RunnerError, match=r'RestClient cannot carry "\w+_in", b?float16$'):
        RestClient(server[RestClient], "halves")


def test_an_only_output_has_its_name(connect):
    given = {"a": np.ones((2, 3, 2)), "b": np.zeros((2, 3, 1))}
    np.testing.assert_array_equal(connect("joined")(given)["both"], [[[1.0, 1.0, 0.0]] * 3] * 2)


def test_messages_may_be_larger_than_grpc_allows_by_itself(server):
    large = np.ones((1, 2_000_000), "float32")  # 8 MB
    with GrpcClient(server[GrpcClient], "echo") as client:
        small = {f"{dtype}_in": np.ones((1, 1), dtype) for dtype in TYPES}
        received = client(small | {"float32_in": large})
    np.testing.assert_array_equal(received["float32"], large)


@pytest.mark.parametrize("version", [1, "stable"])
def test_a_version_is_asked_by_number_or_by_label(connect, in_keras, version):
    models.assert_same(connect("recurrent", version=version)(data()), in_keras(data()))


def test_one_client_serves_many_threads(connect, in_keras):
    client = connect("recurrent")
    cases = [data(1 + k % 3, 2 + k % 4, seed=k) for k in range(24)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(client, cases))
    for case, answer in zip(cases, answers, strict=True):
        models.assert_same(answer, in_keras(case))


def test_a_live_server_is_checked_with_its_step(server, recurrent):
    with (
        RestClient(server[RestClient], "recurrent") as rest,
        GrpcClient(server[GrpcClient], "recurrent") as rpc,
    ):
        report = check(recurrent, [rest, rpc], data(7)["x"])
    assert report
    for result in report.artifacts:
        assert result.path.endswith(" recurrent")
        assert result.property("streaming").status == "pass"


def test_signatures_are_those_of_the_export(connect):
    assert connect("recurrent").signatures() == ["serving_default", "step"]


def test_wrong_data_is_refused_before_it_is_sent(connect):
    with pytest.raises(ValueError, match=r"has the shape \(any, any, 3\); received \(2, 3\)"):
        connect("recurrent")({"x": np.ones((2, 3))})


@pytest.mark.parametrize(
    ("arguments", "version", "message"),
    [
        (["nosuch"], None, r"Servable not found for request: Latest\(nosuch\)"),
        (
            ["recurrent"],
            7,
            r"model recurrent 7: Servable not found for request: Specific\(recurrent, 7\)",
        ),
        (["recurrent"], "nosuch", "label"),
        (["recurrent", "other"], None, "no signature other; it has: serving_default, step"),
    ],
)
def test_what_the_server_does_not_have_is_named(connect, arguments, version, message):
    with pytest.raises(RunnerError, match=message) as caught:
        connect(*arguments, version=version)
    assert "\n" not in str(caught.value)


def test_what_the_model_refuses_is_one_line_and_the_next_call_works(connect):
    client = connect("joined")
    with pytest.raises(RunnerError, match=r"^TensorFlow Serving [^\n]+$"):
        client({"a": np.ones((1, 3, 2)), "b": np.zeros((1, 4, 1))})
    assert client({"a": np.ones((1, 3, 2)), "b": np.zeros((1, 3, 1))})["both"].shape == (1, 3, 3)


def address(client, port):
    return f"http://127.0.0.1:{port}" if client is RestClient else f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("client", "message"), [(RestClient, "no server answers"), (GrpcClient, "UNAVAILABLE")]
)
def test_where_no_server_is_it_is_said(client, message):
    with pytest.raises(RunnerError, match=message):
        client(address(client, servers.free_port()), "recurrent")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_silent_server_is_given_up(client):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(RunnerError, match=r"no answer within 0.5 s$"):
            client(address(client, silent.getsockname()[1]), "recurrent", timeout=0.5)


def test_a_server_of_another_kind_is_not_taken_for_one():
    class Other(http.server.BaseHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

        def do_GET(self):
            self.send_response(502)
            self.end_headers()
            self.wfile.write(b"<html>Bad gateway</html>")

    other = http.server.HTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=other.handle_request)
    thread.start()
    with pytest.raises(
        RunnerError, match="HTTP status 502, and not as a TensorFlow server"
    ) as caught:
        RestClient(address(RestClient, other.server_port), "recurrent")
    thread.join()
    other.server_close()
    assert caught.value.detail == "<html>Bad gateway</html>"


def test_an_address_without_http_is_named():
    with pytest.raises(RunnerError, match="No connection adapters were found"):
        RestClient("localhost:8501", "recurrent")


def test_only_grpc_needs_the_extra(monkeypatch):
    monkeypatch.setattr(api.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'GrpcClient needs .*"\.\[serving\]"'):
        GrpcClient("localhost:8500", "recurrent")
