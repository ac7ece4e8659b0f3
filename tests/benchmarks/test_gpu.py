"""The benchmark of a GPU: here it measures the CPU, with few layers at a small shape."""

import pytest

from benchmarks import backends, gpu, settings, timing
from benchmarks.results import Measurement, Results
from benchmarks.settings import INFERENCE, KERAS_GRU, KERAS_LSTM, LN_GRU, TRAINING, Shape
from tests.backend_process import run_on_backend

SMALL = Shape(2, 3, 4, 5)
MODES = [f"mixed_float16, {mode}" for mode in (TRAINING, INFERENCE)]
# Prints the measured modes and layers.
MEASURE = f"""
import json
from benchmarks import gpu, settings, timing
gpu.COMPARED = {{settings.JOINT_LSTM: settings.KERAS_LSTM}}
gpu.DTYPES, timing.WINDOW, timing.MIN_SECONDS = ("mixed_float16",), 1, 0.0
found = gpu.measure_backend([settings.Shape{tuple(SMALL)}], rounds=1)
print(json.dumps([[m.mode, sorted(m.values), sorted(m.first)] for m in found.measurements]))
"""


@pytest.fixture
def small(monkeypatch):
    """Measure one dtype in few calls."""
    monkeypatch.setattr(gpu, "DTYPES", ("mixed_float16",))
    monkeypatch.setattr(timing, "WINDOW", 1)
    monkeypatch.setattr(timing, "MIN_SECONDS", 0.0)


def test_jax_measures_all_modes():
    layers = sorted((settings.JOINT_LSTM, settings.KERAS_LSTM))
    assert run_on_backend("jax", "-c", MEASURE) == [[mode, layers, layers] for mode in MODES]


@pytest.mark.usefixtures("small")
def test_tensorflow_measures_all_modes(monkeypatch):
    monkeypatch.setattr(gpu, "COMPARED", {settings.NO_NORM: settings.KERAS_LSTM})
    found = gpu.measure_backend([SMALL], rounds=1)
    assert [m.mode for m in found.measurements] == MODES
    for m in found.measurements:
        assert set(m.values) == set(m.first) == {settings.NO_NORM, settings.KERAS_LSTM}


def test_the_table_separates_large_shapes_and_names_what_is_unmeasured():
    times = dict.fromkeys((*gpu.COMPARED, KERAS_LSTM), 2.0) | {KERAS_GRU: 2.0}
    shapes = {backends.SHAPES[0]: 3.0, backends.SHAPES[1]: 1.0, gpu.LARGE[0]: 8.0}
    measured = []
    for shape, seconds in shapes.items():
        first = times | {LN_GRU: seconds}
        values = {name: [value] for name, value in first.items()}
        measured.append(Measurement("gpu", f"float32, {TRAINING}", shape, values, first=first))
    rows = gpu.table([Results({}, {"backend": "jax"}, tuple(measured))]).rows
    assert rows[0] == ("jax, float32",)
    row = ("LN-GRU", "0.87 (1.50)", "4.00 (4.00)", "unmeasured", "unmeasured", "3.0")
    assert row in rows[: len(gpu.COMPARED) + 1]
