"""The benchmark of a GPU: here it measures the CPU, with few layers at a small shape."""

import pytest

from benchmarks import backends, gpu, settings
from benchmarks.results import Measurement, Results
from benchmarks.settings import INFERENCE, KERAS_GRU, KERAS_LSTM, LN_GRU, TRAINING, Shape
from tests.backend_process import run_on_backend

SMALL = Shape(2, 3, 4, 5)
# Prints the measured modes and layers.
MEASURE = f"""
import json
from benchmarks import gpu, settings
gpu.COMPARED = {{settings.JOINT_LSTM: settings.KERAS_LSTM}}
found = gpu.measure_backend([settings.Shape{tuple(SMALL)}], rounds=1)
print(json.dumps([[m.mode, sorted(m.values), sorted(m.first)] for m in found.measurements]))
"""


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_each_backend_measures_all_modes(backend):
    layers = sorted((settings.JOINT_LSTM, settings.KERAS_LSTM))
    assert run_on_backend(backend, "-c", MEASURE) == [
        [f"{dtype}, {mode}", layers, layers]
        for dtype in gpu.DTYPES
        for mode in (TRAINING, INFERENCE)
    ]


def test_a_layer_that_cannot_run_is_left_out(monkeypatch, capsys):
    def step(name, *_):
        if name == KERAS_GRU:
            raise ValueError("no kernel")
        return lambda: None

    monkeypatch.setattr(gpu, "step", step)
    found = gpu.measure_backend([SMALL], rounds=1)
    assert all(KERAS_GRU not in m.values and LN_GRU in m.first for m in found.measurements)
    assert (
        "keras GRU cannot run: float32, (2, 3, 4, 5), training: no kernel"
        in capsys.readouterr().out
    )


def test_no_shape_begins_after_the_time(capsys):
    assert gpu.measure_backend([SMALL], minutes=0).measurements == ()
    assert "the time is over: mixed_float16, (2, 3, 4, 5), inference" in capsys.readouterr().out


def test_the_table_separates_large_shapes_and_names_what_is_unmeasured():
    times = dict.fromkeys((*gpu.COMPARED, KERAS_LSTM), 2.0) | {LN_GRU: 3.0, KERAS_GRU: 2.0}
    found = Results({}, {"backend": "jax"}, ()).with_suite(
        "gpu",
        [
            Measurement(
                "gpu",
                f"float32, {TRAINING}",
                shape,
                {n: [t] for n, t in values.items()},
                first=values,
            )
            for shape, values in (
                (backends.SHAPES[0], times),
                (backends.SHAPES[1], times | {LN_GRU: 1.0}),
                (gpu.LARGE[0], times | {LN_GRU: 8.0}),
            )
        ],
    )
    rows = gpu.table([found]).rows
    assert rows[0] == ("jax, float32",)
    row = ("LN-GRU", "0.87 (1.50)", "4.00 (4.00)", "unmeasured", "unmeasured", "3.0")
    assert row in rows[: len(gpu.COMPARED) + 1]
