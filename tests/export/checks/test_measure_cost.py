import time

import numpy as np
import pytest

from keras_norm.export.checks import subject
from keras_norm.export.checks.artifacts import FunctionRunner
from keras_norm.export.checks.subject import file_size, measure_cost, measure_milliseconds
from keras_norm.export.compare.samples import Samples

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
