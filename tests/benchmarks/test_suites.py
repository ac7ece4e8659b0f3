"""The suites on tiny shapes."""

import dataclasses
import sys

import numpy as np
import pytest

from benchmarks import memory, settings, suites, tflite
from benchmarks.settings import Shape

SHAPE = Shape(2, 3, 4, 5)
TINY = dataclasses.replace(
    settings.QUICK,
    rounds=2,
    shapes=(SHAPE,),
    variants=(settings.KERAS_LSTM, "GEMMs, rows x1", "GEMMs, rows x2"),
    growth=(SHAPE,),
    fit=(SHAPE,),
    fit_samples=4,
    layers=((2, 3, 4),),
)


@pytest.mark.parametrize(
    ("suite", "variants"),
    [
        ("recurrent", TINY.variants),
        ("growth", (settings.LN_LSTM, settings.KERAS_LSTM)),
        ("fit", (settings.LN_LSTM, settings.KERAS_LSTM, settings.RNN_CELL)),
        ("layers", (*settings.PEERS, *(f"keras {peer}" for peer in settings.PEERS.values()))),
    ],
)
def test_a_suite_times_every_variant_in_every_round(suite, variants, monkeypatch):
    monkeypatch.setattr("benchmarks.timing.ENOUGH", 0.0)
    monkeypatch.setattr("benchmarks.timing.WINDOW", 1)
    monkeypatch.setattr("benchmarks.models.WARM_CALLS", 0)
    monkeypatch.setattr("benchmarks.models.WARM_TIMESTEPS", 0)
    measured = next(suites.RUN[suite](TINY))
    assert measured.suite == suite
    assert set(measured.values) == set(measured.first) == set(variants)
    assert {len(times) for times in measured.values.values()} == {2}


def test_every_suite_has_its_function():
    assert set(suites.RUN) == set(settings.SUITES)


def test_a_static_file_runs(tmp_path):
    pytest.importorskip("ai_edge_litert")
    file = tflite.convert(settings.UNROLLED, SHAPE, tmp_path)
    assert np.isfinite(tflite.invocation(file, SHAPE, threads=1).run())


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_the_peak_holds_what_was_freed_again():
    idle = memory.peak_during(lambda: None)
    assert memory.peak_during(lambda: np.ones(2**24)) > idle + 100 * 2**20  # 128 MiB, freed at once
