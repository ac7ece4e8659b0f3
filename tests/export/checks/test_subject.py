import contextlib
import time
import types

import numpy as np
import pytest

from keras_norm.export.checks import subject
from keras_norm.export.checks.artifacts import FunctionRunner, Source
from keras_norm.export.checks.subject import (
    file_size,
    measure_cost,
    measure_milliseconds,
    open_subjects,
)
from keras_norm.export.compare.samples import Samples
from keras_norm.export.errors import RunnerError

EXPECTED = types.SimpleNamespace(cases=(types.SimpleNamespace(inputs={"x": 1}),))
PLAN = types.SimpleNamespace(expected=EXPECTED)


@pytest.fixture
def events():
    return []


def source(name, events, fails=False):
    @contextlib.contextmanager
    def start():
        events.append(f"{name} starts")
        yield name
        events.append(f"{name} ends")

    def load(worker):
        events.append(f"{worker} loads")
        if fails:
            raise RunnerError("damaged")
        return contextlib.nullcontext(FunctionRunner(lambda inputs: inputs))

    return Source(name, name, "float32", load, start)


def test_all_workers_start_before_one_loads_and_end_with_the_block(events):
    with open_subjects([source("a", events), source("b", events)], PLAN):
        assert events == ["a starts", "b starts", "a loads", "b loads"]
    assert events[4:] == ["b ends", "a ends"]


def test_an_error_while_a_file_opens_is_stored_and_other_files_open(events):
    sources = [source("a", events, fails=True), source("b", events)]
    with open_subjects(sources, PLAN) as (a, b):
        assert (a.runner, a.error) == (None, "damaged")
        assert (b.outputs, b.error) == (({"x": 1},), None)
    assert "a ends" in events


SAMPLES = Samples({}, {"x": np.zeros((3, 2))})


class TimedRunner(FunctionRunner):
    """A runner that reports given durations of its calls."""

    def __init__(self, *seconds):
        super().__init__(lambda inputs: inputs)
        self._seconds = iter(seconds)

    def ops(self):
        return {"ADD": ["a"], "MUL": ["b", "c"], "EXP": ["d"]}

    def seconds(self):
        return next(self._seconds)


def test_the_latency_is_the_median_of_the_durations_that_the_runner_reports():
    assert measure_milliseconds(TimedRunner(1.0, 9.0, 2.0, 2.0, 3.0), {}) == 2000.0


def test_a_function_is_timed_by_the_wall_clock():
    assert measure_milliseconds(
        FunctionRunner(lambda inputs: time.sleep(0.01)), {}
    ) == pytest.approx(10.0, rel=0.5)


def test_a_slow_model_is_called_twice(monkeypatch):
    monkeypatch.setattr(subject, "SECONDS", 0.0)
    calls = []
    measure_milliseconds(FunctionRunner(calls.append), {})
    assert len(calls) == 2  # one to warm up, one that counts


def test_latency_is_measured_for_one_row_and_for_the_largest_batch():
    found = measure_cost(FunctionRunner(lambda inputs: inputs), SAMPLES, 3)
    assert [batch for batch, _ in found.latency] == [1, 3]


def test_the_most_frequent_operation_comes_first():
    found = measure_cost(TimedRunner(*range(10)), SAMPLES, 2)
    assert found.ops == (("MUL", 2), ("ADD", 1), ("EXP", 1))


def test_the_size_of_a_folder_is_the_size_of_its_files(tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "data").write_bytes(b"12345")
    (tmp_path / "saved_model.pb").write_bytes(b"123")
    assert file_size(tmp_path) == 8
    assert file_size(tmp_path / "saved_model.pb") == 3
