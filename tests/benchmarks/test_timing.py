"""Rounds, warm-up and statistics of the benchmarks."""

import itertools
import sys

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import timing
from benchmarks.timing import Spread, Variant


def test_every_round_runs_every_variant_and_starts_with_another():
    calls = []
    variants = {name: Variant(lambda name=name: calls.append(name)) for name in "abc"}
    seconds = timing.run_rounds(variants, 4)
    assert "".join(calls) == "abcbcacababc"
    assert {name: len(times) for name, times in seconds.items()} == {"a": 4, "b": 4, "c": 4}


def clock(monkeypatch, durations):
    """Replace the measured times by given seconds."""
    monkeypatch.setattr(timing, "_seconds", lambda run: (run(), next(durations))[1])


def test_warm_up_ends_when_the_time_is_stable(monkeypatch):
    calls = []
    clock(monkeypatch, itertools.chain([9.0, 8, 7, 6, 5, 4, 3, 2], itertools.repeat(1.0)))
    assert timing.warm(Variant(lambda: calls.append(1))) == 9.0
    assert len(calls) == 12  # the best of the last three equals the best of the three before


def test_rounds_with_a_compilation_are_run_again(monkeypatch):
    clock(monkeypatch, itertools.repeat(1.0))
    code = itertools.chain([0] * 8, itertools.repeat(1))  # 7 in the warm-up, 1 before the rounds
    monkeypatch.setattr(timing, "machine_code", lambda: next(code))
    calls = []
    timings = timing.measure({"a": Variant(lambda: calls.append(1))}, 5)
    assert not timings.compiled
    assert len(timings.rounds["a"]) == 5
    assert len(calls) == 6 + 1 + 2 * 5


def test_rounds_that_always_compile_are_marked(monkeypatch):
    clock(monkeypatch, itertools.repeat(1.0))
    monkeypatch.setattr(timing, "warm", lambda variant: 0.0)
    code = itertools.count()
    monkeypatch.setattr(timing, "machine_code", lambda: next(code))
    assert timing.measure({"a": Variant(lambda: None)}, 5).compiled


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/maps")
def test_a_compilation_increases_the_machine_code():
    double = tf.function(lambda x: 2 * x + 1, jit_compile=True)
    before = timing.machine_code()
    double(tf.ones(7))
    compiled = timing.machine_code()
    double(tf.ones(7))
    assert before < compiled == timing.machine_code()


def test_ratios_are_taken_within_each_round():
    spread = timing.ratio([2.0, 6, 30, 4, 50], [1.0, 2, 10, 1, 10])
    assert spread == Spread(3.0, 3.0, 4.0)
    assert str(spread) == "3.00 ±0.50"


def test_growth_fits_recover_the_line_and_the_exponent():
    sizes = np.array([32, 128, 512, 1024])
    assert timing.linear_fit(sizes, 3 + 0.5 * sizes) == pytest.approx((3, 0.5))
    assert timing.growth_exponent(sizes, 7 * sizes**1.5) == pytest.approx(1.5)
