"""Replicas equal one device with synchronized statistics, and differ without."""

import pytest

from benchmarks import distributed
from benchmarks.distributed import GROUPS, MODEL_PARALLEL, ONE_DEVICE, REPLICAS_2
from benchmarks.distributed_training import Task

BATCH_NORM, SYNCHRONIZED = "BatchNormalization", "BatchNormalization, synchronized"
KERAS = "keras BatchNormalization, synchronized"  # without the masked rows of other replicas
TASK = Task((BATCH_NORM, SYNCHRONIZED, KERAS), sizes=(8, 4))


@pytest.fixture(scope="module")
def expected():
    return distributed.train(ONE_DEVICE, TASK)


def test_replicas_differ_from_one_device_without_synchronized(expected):
    found = distributed.train(GROUPS[REPLICAS_2], TASK)
    measured = distributed.differences(found, expected, TASK.names)
    assert measured[f"{SYNCHRONIZED}, weight"][0] < 2e-6
    assert measured[f"{SYNCHRONIZED}, statistic"][0] < 2e-6
    assert measured[f"{BATCH_NORM}, weight"][0] > 1e-4
    assert measured[f"{KERAS}, statistic"][0] > 1e-3


def test_model_parallel_equals_one_device_and_a_layer_that_jax_refuses_is_left_out(expected):
    found = distributed.train(GROUPS[MODEL_PARALLEL], TASK)
    measured = distributed.differences(found, expected, TASK.names)
    assert max(value for (value,) in measured.values()) < 2e-6
    assert {key.rpartition(", ")[0] for key in measured} == {BATCH_NORM, SYNCHRONIZED}
