"""Merged statistics of replicas, against the statistics of all rows in float64.

`tests/distributed` merges statistics of real replicas.
"""

import keras
import numpy as np
import pytest

from keras_norm.ops import global_statistics as module
from keras_norm.ops.global_statistics import BatchStatistics, global_statistics

RNG = np.random.default_rng(0)
ROWS = (5, 0, 1, 8)  # rows of each replica


def statistics_of(x):
    """Return the statistics of x (rows, time, features) over its rows."""
    n = np.full((1, 1), len(x), "float64")
    empty = np.zeros(x.shape[1:])
    mean, variance = (x.mean(0), x.var(0)) if len(x) else (empty * np.nan, empty)
    return BatchStatistics(*map(keras.ops.convert_to_tensor, (mean, variance, n)))


def merge(monkeypatch, parts):
    """Merge the statistics of replicas that run one after the other."""
    terms = []

    def record(*tensors):
        terms.append(tensors)
        return list(tensors)

    time = max(part.mean.shape[0] for part in parts)
    options = {"name": "norm", "per_timestep": True}
    monkeypatch.setattr(module, "count_replicas", lambda: len(parts))
    monkeypatch.setattr(module, "max_over_replicas", lambda _: time)
    monkeypatch.setattr(module, "sum_over_replicas", record)
    for part in parts:
        global_statistics([part], **options)
    monkeypatch.setattr(
        module, "sum_over_replicas", lambda *_: [sum(all_) for all_ in zip(*terms, strict=True)]
    )
    return global_statistics(parts[:1], **options)[0]


@pytest.mark.parametrize("location", [0.0, 1e6])
def test_merged_statistics_are_those_of_all_rows(monkeypatch, location):
    parts = [RNG.normal(location, 1.0 + k, (n, 3, 2)) for k, n in enumerate(ROWS)]
    found = merge(monkeypatch, [statistics_of(x) for x in parts])
    rows = np.concatenate(parts)
    np.testing.assert_allclose(found.mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.variance, rows.var(0), rtol=1e-12 if location == 0 else 1e-3)
    np.testing.assert_array_equal(found.count, np.full((3, 1), len(rows)))


def test_the_variance_of_equal_rows_is_not_negative(monkeypatch):
    row = RNG.normal(size=(50, 2))
    found = merge(monkeypatch, [statistics_of(np.repeat(row[None], n, axis=0)) for n in ROWS])
    assert 0.0 <= np.min(found.variance) < np.max(found.variance) < 1e-14


def test_a_replica_with_fewer_timesteps_counts_only_at_its_own(monkeypatch):
    short, long = RNG.normal(size=(4, 2, 2)), RNG.normal(size=(3, 5, 2))
    found = merge(monkeypatch, [statistics_of(short), statistics_of(long)])
    rows = np.concatenate([short, long[:, :2]])
    np.testing.assert_allclose(found.variance[:2], rows.var(0), rtol=1e-12)
    np.testing.assert_allclose(found.mean[2:], long[:, 2:].mean(0), rtol=1e-12)
    np.testing.assert_array_equal(found.count[:, 0], [7, 7, 3, 3, 3])


def test_one_device_and_a_layer_without_statistics_merge_nothing():
    part = statistics_of(RNG.normal(size=(4, 2, 2)))
    assert global_statistics([part], name="norm", per_timestep=True)[0] is part
    assert global_statistics([], name="norm", per_timestep=True) == []


def test_a_large_mean_costs_no_digits_of_merged_timesteps():
    """The sum over many timesteps is rounded in float32."""
    for apart in (np.zeros(1), np.array([0.0, 4.0]), RNG.integers(0, 9, 999)):
        mean = apart[:, None] + 1e7
        columns = mean, np.full_like(mean, 2.0), np.full_like(mean, 3.0)
        batch = (keras.ops.convert_to_tensor(s, "float32") for s in columns)
        found = BatchStatistics(*batch).merge_timesteps()
        np.testing.assert_allclose(found.variance, [[2.0 + np.var(apart)]], rtol=1e-4)
        np.testing.assert_allclose(found.mean, [[mean.mean()]], rtol=0, atol=0.51)
