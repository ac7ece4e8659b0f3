import pathlib
import signal
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from keras_norm.export.errors import RunnerError
from keras_norm.export.runtimes import channel
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm_verify import run_over_time

FOLDERS = [str(pathlib.Path(module.__file__).parent) for module in (channel, run_over_time)]

ECHO = f"""
import sys, time
sys.path[:0] = {FOLDERS!r}
import worker_protocol as protocol

running = []

def load(request):
    print("a stray line on stdout")
    def run(arrays):
        if "hang" in arrays:
            time.sleep(60)
        if "doze" in arrays:
            time.sleep(0.05)
        if "abort" in arrays:
            print("F0000 Check failed: size > 0", file=sys.stderr, flush=True)
            print("    @ 0x7f stack frame", file=sys.stderr, flush=True)
            import os; os.abort()
        if "running" in arrays:
            running.append(1)
            time.sleep(0.02)
            count = len(running)
            running.pop()
            return {{"running": count}}
        if "litter" in arrays:
            import tempfile
            _, name = tempfile.mkstemp()
            return {{name: 0}}
        if "fail" in arrays:
            raise ValueError("first line\\nsecond line")
        return arrays
    return protocol.Loaded(request, run)

protocol.serve(load)
"""


def start(folder, text=ECHO):
    script = folder / "script.py"
    script.write_text(text)
    worker = WorkerProcess(str(script), subject="the echo", timeout=30.0)
    worker.load({"given": 1})
    return worker


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    with start(tmp_path_factory.mktemp("echo")) as worker:
        yield worker


def test_a_worker_loads_more_than_once(echo):
    for request in ({"given": 1}, {"given": 2}):
        assert echo.load(request) == request
        assert echo.run({"fine": 1})["fine"] == 1


@pytest.mark.parametrize("name", ["file", channel.ARRAY])
def test_arrays_are_equal_after_sending_and_receiving(echo, name):
    dtypes = ("float16", "float32", "float64", "int32", "int64", "bool")
    for sent in (np.ones(shape, dtype) for dtype in dtypes for shape in [(), (0, 2), (2, 3)]):
        received = echo.run({name: sent})[name]
        assert received.dtype == sent.dtype
        np.testing.assert_array_equal(received, sent)


def test_a_bfloat16_array_is_received_in_float32(echo):
    received = echo.run({"x": np.array(1.5, ml_dtypes.bfloat16)})["x"]
    assert (received.dtype, received) == ("float32", 1.5)


def test_a_closed_worker_leaves_no_temporary_files_and_refuses_to_run(tmp_path):
    with start(tmp_path) as worker:
        (name,) = worker.run({"litter": 1})
        assert pathlib.Path(name).exists()
        worker.close()  # the block closes it a second time
    assert not pathlib.Path(name).parent.exists()
    with pytest.raises(RunnerError, match=r"^the echo: the runner is closed$"):
        worker.run({"fine": 1})


def test_the_worker_reports_the_duration_of_its_last_run(echo):
    echo.run({"doze": 1})
    assert 0.05 <= echo.call("seconds") < 0.5
    echo.call("run_over_time", {"doze": np.ones((1, 4))}, {}, [])
    assert 0.05 <= echo.call("seconds") < 0.2  # of a timestep
    echo.run({"fine": 1})
    assert 0.0 < echo.call("seconds") < 0.05


def test_an_error_gives_its_first_line_and_leaves_the_worker_running(echo):
    with pytest.raises(RunnerError, match=r"^the echo: first line$") as caught:
        echo.run({"fail": 1})
    assert caught.value.detail == "first line\nsecond line"
    assert echo.run({"fine": 1})["fine"] == 1


def test_an_interrupted_call_closes_the_worker(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with start(tmp_path) as worker:
        with monkeypatch.context() as patched:
            patched.setattr(worker._channel, "_loads", interrupted)
            with pytest.raises(KeyboardInterrupt):
                worker.run({"file": 1})
        with pytest.raises(RunnerError, match="the runner is closed"):
            worker.run({"fine": 1})


def test_threads_call_at_the_same_time_and_all_get_outputs(echo):
    calls, (lowest,), (highest,) = echo.call("run_at_once", [{"running": 1}], 8, 0.1)
    assert calls >= 8
    assert 1 <= lowest["running"] < highest["running"] <= 8


def test_the_outputs_of_threads_are_sorted_by_case(echo):
    cases = [{"file": np.array([k, -k])} for k in range(3)]
    calls, *spans = echo.call("run_at_once", cases, 4, 0)
    assert calls == 4  # one for each thread, however short the time
    for span in spans:
        np.testing.assert_array_equal([y["file"] for y in span], [c["file"] for c in cases])


def test_an_error_in_a_thread_fails_the_call(echo):
    with pytest.raises(RunnerError, match=r"^the echo: first line$"):
        echo.call("run_at_once", [{"fine": 1}, {"fail": 1}], 2, 0)


def test_a_crash_is_reported_with_the_signal_and_the_error_line(tmp_path):
    message = r"killed by SIGABRT: F0000 Check failed: size > 0$"
    with start(tmp_path) as worker, pytest.raises(RunnerError, match=message):
        worker.run({"abort": 1})


def test_a_worker_that_does_not_reply_is_killed(tmp_path):
    message = r"^the echo: the worker process did not reply within 1 s$"
    with start(tmp_path) as worker:
        worker.timeout = 1.0
        with pytest.raises(RunnerError, match=message):
            worker.run({"hang": 1})
        assert worker.process.wait() == -signal.SIGKILL


PARENT = f"""
import subprocess, sys, time
from multiprocessing.connection import Pipe
sys.path[:0] = {FOLDERS!r}
from channel import Channel

ours, theirs = Pipe()
number = theirs.fileno()
command = [sys.executable, "script.py", str(number)]
subprocess.Popen(command, pass_fds=[number], stdout=subprocess.DEVNULL)
theirs.close()
parent = Channel(ours)
parent.call("load", None)
parent.notify("run", {{"hang": 1}})
print("at work", flush=True)
time.sleep(60)
"""


def test_a_running_worker_ends_after_its_parent_is_killed(tmp_path):
    (tmp_path / "script.py").write_text(ECHO)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,  # which the worker inherits, and so holds open as long as it lives
        text=True,
    )
    assert parent.stdout.readline() == "at work\n"
    parent.kill()
    parent.communicate(timeout=30)


def test_an_import_error_of_a_worker_is_reported(tmp_path):
    with pytest.raises(RunnerError, match=r"ended with status 1: ModuleNotFoundError: .*no_such"):
        start(tmp_path, "import no_such")
