"""Statistics of a cell on simulated replicas; `tests/distributed` trains real replicas."""

import numpy as np
import pytest
from keras import ops

import keras_norm
from keras_norm.ops.global_statistics import BatchStatistics
from keras_norm.rnn import slot_statistics

RNG = np.random.default_rng(0)


def built_cell(**synchronized):
    """Build a cell whose norms store the statistics of the latest batch."""
    norms = {
        slot: keras_norm.BatchNormalization(momentum=0.0, synchronized=value)
        for slot, value in synchronized.items()
    }
    cell = keras_norm.NormSimpleRNNCell(4, norm=norms)
    cell.build((2, 3))
    return cell


def test_only_the_statistics_of_norms_that_are_not_synchronized_are_merged(monkeypatch):
    def merge(batches, **_):
        return [batch._replace(mean=batch.mean + 100.0) for batch in batches]

    monkeypatch.setattr(slot_statistics, "global_statistics", merge)
    mean = RNG.normal(size=(1, 4)).astype("float32")
    batch = BatchStatistics(*map(ops.convert_to_tensor, (mean, mean**2, np.full((1, 1), 8.0))))
    cell = built_cell(kernel_norm=True, recurrent_norm=False)
    slot_statistics.update_slots(cell, dict.fromkeys(["kernel_norm", "recurrent_norm"], batch))
    np.testing.assert_allclose(cell.kernel_norm.moving_mean, mean[0], rtol=1e-6)
    np.testing.assert_allclose(cell.recurrent_norm.moving_mean, mean[0] + 100.0, rtol=1e-6)


def test_a_cell_on_replicas_warns_or_raises_unless_it_is_frozen(monkeypatch):
    monkeypatch.setattr(slot_statistics, "count_replicas", lambda: 2)
    synchronized, local = built_cell(kernel_norm=True), built_cell(kernel_norm=False)
    with pytest.raises(ValueError, match="synchronized=True, which a cell in"):
        slot_statistics.statistics_of_cell(synchronized, training=True)
    with pytest.warns(UserWarning, match="called inside a loop"):
        slot_statistics.statistics_of_cell(local, training=True)
    for cell in (synchronized, local):
        slot_statistics.statistics_of_cell(cell, training=False)
        cell.kernel_norm.trainable = False
        slot_statistics.statistics_of_cell(cell, training=True)
