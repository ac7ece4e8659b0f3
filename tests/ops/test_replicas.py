"""Sums over two simulated replicas with equal tensors; `tests/distributed` has real replicas."""

import types

import numpy as np
import pytest

from keras_norm.ops import replicas

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def adapter(monkeypatch):
    """Simulate two replicas; return the calls of the collective."""
    sums = []

    def sum_over_replicas(x):
        sums.append(x)
        return 2.0 * x

    adapter = types.SimpleNamespace(
        count_replicas=lambda: 2, sum_over_replicas=sum_over_replicas, is_in_loop=lambda: True
    )
    monkeypatch.setattr(replicas, "_adapter", lambda: adapter)
    return sums


@pytest.mark.parametrize("shapes", [[(2, 3)], [(2, 1), (0, 3), (), (5,)]], ids=["one", "four"])
def test_tensors_of_any_shapes_are_added_in_one_collective(adapter, shapes):
    tensors = [RNG.normal(size=shape) for shape in shapes]
    for x, total in zip(tensors, replicas.sum_over_replicas(*tensors), strict=True):
        np.testing.assert_array_equal(total, 2.0 * x)
    assert len(adapter) == 1


def use_local_statistics_and_fail():
    with replicas.local_statistics():
        with replicas.local_statistics(collected=True):
            assert replicas.is_part_of_batch()
        assert not replicas.is_part_of_batch()
        assert replicas.count_replicas() == 1
        assert not replicas.synchronizes("norm")
        raise OSError("the disk is gone")


def test_local_statistics_end_with_their_block_and_with_an_error():
    with pytest.raises(OSError, match="disk"):
        use_local_statistics_and_fail()
    assert replicas.count_replicas() == 2
    assert replicas.is_part_of_batch()


def test_a_synchronized_layer_in_a_loop_is_refused():
    with pytest.raises(ValueError, match=r"'norm' has synchronized=True, .* Received: 2 replicas"):
        replicas.synchronizes("norm")
