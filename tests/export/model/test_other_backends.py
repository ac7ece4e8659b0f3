"""Small programs take the place of the TensorFlow process; tests/export/test_jax.py runs it."""

import inspect
import logging
import os
import time
import warnings

import keras
import pytest

from keras_norm.export import export_saved_model
from keras_norm.export.errors import RunnerError
from keras_norm.export.model import other_backends
from keras_norm.export.model.other_backends import TensorFlowProcess, runs_on_tensorflow
from tests.export import models, text_models

# A program that receives the call. `send` sends a message.
PROGRAM = """
import os, pickle, sys, time, warnings, logging, multiprocessing.connection
parent = multiprocessing.connection.Connection(int(sys.argv[1]))
send = lambda *message: parent.send(message)
path, (kind, name, (settings, log_level, call)) = parent.recv(), parent.recv()
"""


@pytest.fixture
def run(monkeypatch):
    """Run lines of Python in place of the TensorFlow process, and return the result.

    The lines can call `function` by the number 0.
    """

    def run(lines, function=None):
        monkeypatch.setattr(other_backends, "PROGRAM", PROGRAM + inspect.cleandoc(lines))
        with TensorFlowProcess() as process:
            process._values.convert(function)
            return process.call("a.module", "name", (1,), {"b": [2]})

    return run


def test_the_process_has_the_tensorflow_backend_no_gpu_and_its_own_session(run):
    lines = """
    variables = [os.environ[name] for name in ("KERAS_BACKEND", "CUDA_VISIBLE_DEVICES")]
    send("result", [*variables, os.getsid(0) == os.getpid()])
    """
    assert run(lines) == ["tensorflow", "-1", True]


@pytest.mark.parametrize("module", ["pickle", "signal"])
def test_the_process_imports_no_module_of_the_working_directory(run, tmp_path, monkeypatch, module):
    (tmp_path / f"{module}.py").write_text("open('imported', 'w')")
    monkeypatch.chdir(tmp_path)
    assert run("send('result', call)")
    assert not (tmp_path / "imported").exists()


def test_the_process_receives_the_call(run):
    lines = "send('result', pickle.loads(call))"
    assert run(lines) == ("a.module", "name", (1,), {"b": [2]})


def test_an_error_keeps_its_type_and_message_and_has_the_traceback_as_its_cause(run):
    with pytest.raises(FileExistsError, match=r"^it exists$") as caught:
        run("send('error', (FileExistsError('it exists'), 'line 7'))")
    assert "line 7" in str(caught.value.__cause__)


def test_printed_text_is_printed(run, capsys):
    lines = """
    send("notice", "on_print", ("out", False))
    send("notice", "on_print", ("err", True))
    send("result", None)
    """
    run(lines)
    assert capsys.readouterr() == ("out", "err")


def test_warnings_reach_the_caller_once(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        message = "send('notice', 'on_warning', ('text', UserWarning, 'f.py', 3))"
        run(f"{message}; {message}; send('result', 0)")
    assert [str(each.message) for each in caught] == ["text"]


def test_log_records_reach_the_logger(run, caplog):
    record = "logging.makeLogRecord({'name': 'keras_norm.export', 'levelno': 30, 'msg': 'text'})"
    run(f"send('notice', 'on_log', ({record},)); send('result', 0)")
    assert [(each.name, each.levelno, each.message) for each in caplog.records] == [
        ("keras_norm.export", logging.WARNING, "text")
    ]


def test_the_process_calls_functions_of_the_caller(run):
    lines = "send('call', 'on_call', (0, (3,))); send('result', parent.recv())"
    assert run(lines, lambda x: x + 1) == ("result", 4)


def test_an_error_of_a_function_of_the_caller_is_sent(run):
    def fail(x):
        raise KeyError(x)

    kind, (error, _) = run(
        "send('call', 'on_call', (0, (3,))); send('result', parent.recv())", fail
    )
    assert (kind, type(error), error.args) == ("error", KeyError, (3,))


def test_a_killed_process_gives_one_line(run):
    message = "the TensorFlow process .* was killed by SIGKILL. The computer may have too little"
    with pytest.raises(RunnerError, match=message):
        run("os.kill(os.getpid(), signal.SIGKILL)")


def test_an_interrupt_lets_the_process_clean_up(run, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    file = tmp_path / "incomplete"
    file.touch()
    lines = f"""
    try:
        send("call", "on_call", (0, ()))
        time.sleep(60)
    finally:
        os.remove({str(file)!r})
    """
    with pytest.raises(KeyboardInterrupt):
        run(lines, interrupt)
    assert not file.exists()


def test_a_process_that_ignores_the_interrupt_is_killed(run, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(other_backends, "CLEANUP", 0.1)
    lines = """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    send("call", "on_call", (0, ()))
    time.sleep(60)
    """
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(lines, interrupt)
    assert time.monotonic() - start < 30


def test_on_tensorflow_the_function_runs_in_this_process():
    assert runs_on_tensorflow(lambda model: os.getpid())(models.dense()) == os.getpid()


def test_without_a_model_the_function_runs_in_this_process(monkeypatch):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    assert runs_on_tensorflow(lambda model: os.getpid())("no model") == os.getpid()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: keras.Sequential([keras.layers.Dense(1)]), "Build the model"),
        (text_models.classifier, r'input "review" takes text, .* on TensorFlow only'),
    ],
)
def test_a_model_is_refused_before_the_process_starts(monkeypatch, build, message):
    model = build()
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    monkeypatch.setattr(other_backends, "TensorFlowProcess", None)
    with pytest.raises(ValueError, match=message):
        export_saved_model(model, "folder")
