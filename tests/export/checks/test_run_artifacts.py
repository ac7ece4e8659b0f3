import contextlib

import pytest

from keras_norm.export.checks.artifacts import Source
from keras_norm.export.checks.run_artifacts import opened
from keras_norm.export.errors import RunnerError


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
        return contextlib.nullcontext(lambda inputs: inputs)

    return Source(name, name, "float32", load, start)


def test_all_workers_start_before_one_loads_and_end_with_the_block(events):
    with opened([source("a", events), source("b", events)]):
        assert events == ["a starts", "b starts", "a loads", "b loads"]
    assert events[4:] == ["b ends", "a ends"]


def test_a_file_that_does_not_load_is_a_finding_and_the_others_run(events):
    with opened([source("a", events, fails=True), source("b", events)], {"x": 1}) as (a, b):
        assert (a.run, a.error) == (None, "damaged")
        assert (b.first, b.error) == ({"x": 1}, None)
    assert "a ends" in events
