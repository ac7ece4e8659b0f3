import contextlib
import types

import pytest

from keras_norm.export.checks.artifacts import FunctionRunner, Source
from keras_norm.export.checks.subject import open_subjects
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
