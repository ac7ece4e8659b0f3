"""Every suite on tiny shapes, eagerly where the suite itself does not need a graph."""

import dataclasses
import os
import sys

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import cold_start, fresh_process, memory, search, settings, suites
from benchmarks.settings import Shape, Task

SHAPE = Shape(2, 3, 4, 5)
OURS_AND_KERAS = (settings.LN_LSTM, settings.KERAS_LSTM)
KERAS = (settings.KERAS_LSTM, settings.KERAS_GRU)
TINY = dataclasses.replace(
    settings.QUICK,
    rounds=2,
    cold_rounds=1,
    choices=KERAS,
    first=(SHAPE,),
    bidirectional=(SHAPE,),
    tasks=(Task(3, 3, 4, 5, epochs=1), Task(3, 4, 4, 5, epochs=1, shortest=2)),
    shapes=(SHAPE,),
    variants=(settings.KERAS_LSTM, "GEMMs, rows x1", "GEMMs, columns x2"),
    served=(SHAPE,),
    eager=(SHAPE,),
    growth=(SHAPE,),
    layers=((2, 3, 4),),
)


@pytest.fixture
def eagerly(monkeypatch):
    """Run functions eagerly and in this process, because programs take long to compile."""
    monkeypatch.setattr(fresh_process, "run", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr("benchmarks.timing.MIN_SECONDS", 0.0)
    monkeypatch.setattr("benchmarks.timing.WINDOW", 1)
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


LAYERS = (*settings.KERAS_LAYERS, *(f"keras {name}" for name in settings.KERAS_LAYERS.values()))


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("suite", "variants"),
    [
        ("recurrent", TINY.variants),
        ("growth", OURS_AND_KERAS),
        ("eager", KERAS),
        ("layers", LAYERS),
        ("options", (*settings.OPTIONS, *settings.OPTIONS.values())),
    ],
)
def test_a_suite_times_every_variant_in_every_round(suite, variants):
    measured = next(suites.RUN[suite](TINY))
    assert measured.suite == suite
    assert set(measured.values) == set(measured.first) == set(variants)
    assert {len(times) for times in measured.values.values()} == {2}


FIRST = [settings.FIRST_STEP, settings.FIRST_PREDICT]
FIRST += [settings.BIDIRECTIONAL, settings.BIDIRECTIONAL_CPU]
TASKS = [task.name for task in TINY.tasks]


@pytest.mark.filterwarnings("ignore:Even though .*run_functions_eagerly:UserWarning")
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("suite", "modes"), [("first", FIRST), ("cold", TASKS), ("predict", TASKS)]
)
def test_a_cold_suite_has_every_variant_in_every_round(suite, modes):
    measured = list(suites.RUN[suite](TINY))
    assert [m.mode for m in measured] == modes
    for m in measured:
        assert list(m.values) == list(KERAS)
        assert all(len(times) == 1 and times[0] > 0 for times in m.values.values())


def test_every_cold_call_runs_in_a_new_process(monkeypatch):
    monkeypatch.setattr(fresh_process, "PRELOADED", [])
    assert len({os.getpid(), fresh_process.run(os.getpid), fresh_process.run(os.getpid)}) == 3


def test_the_last_batch_of_every_task_is_smaller():
    for task in (*settings.FULL.tasks, *settings.QUICK.tasks):
        assert task.samples % task.batch


def test_sentences_are_padded_to_the_longest_sentence_of_their_batch():
    (batches,) = cold_start.data(Task(70, 50, 4, 5, epochs=1, shortest=5))
    words = [words.numpy() for words, _ in batches]
    assert [len(batch) for batch in words] == [32, 32, 6]
    lengths = np.concatenate([(batch != 0).sum(axis=1) for batch in words])
    assert 5 <= lengths.min() < lengths.max() <= 50
    assert all(batch.shape[1] == (batch != 0).sum(axis=1).max() for batch in words)


def test_the_served_suite_runs_our_files_and_those_of_keras(monkeypatch):
    monkeypatch.setattr("benchmarks.timing.MIN_SECONDS", 0.0)
    config = dataclasses.replace(TINY, choices=OURS_AND_KERAS, rounds=1)
    predict, files = suites.RUN["served"](config)
    assert (predict.mode, files.mode) == (settings.PREDICT, settings.SERVED)
    assert set(predict.values) == set(files.values) == set(OURS_AND_KERAS)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.filterwarnings("ignore:Even though .*run_functions_eagerly:UserWarning")
@pytest.mark.usefixtures("eagerly")
def test_a_search_measures_time_and_memory_of_its_trials(monkeypatch):
    for name, value in {"VARIANTS": KERAS[:1], "SHAPE": SHAPE, "FIRST": 1}.items():
        monkeypatch.setattr(search, name, value)
    *times, kept = suites.RUN["search"](dataclasses.replace(TINY, trials=2))
    assert [time.mode for time in times] == [settings.TRIAL, settings.SAME_SIZE]
    assert (kept.mode, kept.unit) == (settings.KEPT, "bytes")
    assert all(seconds > 0 for time in times for (seconds,) in time.values.values())


def test_the_memory_peak_includes_freed_memory():
    idle = memory.peak_during(lambda: None)
    assert memory.peak_during(lambda: np.ones(2**24)) > idle + 100 * 2**20  # 128 MiB, freed at once
