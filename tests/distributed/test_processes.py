"""The rig starts groups of processes, collects their results, and ends what fails or hangs."""

import fcntl
import signal
import subprocess
import time

import numpy as np
import pytest

from tests.distributed import processes

X = np.random.default_rng(0).normal(size=(7, 3))


def total(place, x):
    """Return the sum over all rows, added in the group."""
    part = place.shard(x).sum(axis=0)
    if place.strategy:
        import tensorflow as tf

        def add(part):
            # Without `identity` the tensor has no device, and all_reduce raises.
            return tf.distribute.get_replica_context().all_reduce("sum", tf.identity(part))

        parts = tf.function(place.strategy.run)(add, (tf.constant(part),))
        sums = place.strategy.experimental_local_results(parts)
        assert place.strategy.num_replicas_in_sync == place.count
        return {"total": sums[0] / (place.count if place.kind == "mirrored" else 1)}
    if place.kind == "torch":
        import torch

        tensor = torch.tensor(part)
        torch.distributed.all_reduce(tensor)
        return {"total": tensor}
    import jax
    from jax.experimental import multihost_utils

    assert jax.device_count() == place.count
    return {"total": multihost_utils.process_allgather(part).reshape(-1, 3).sum(axis=0)}


def fail_or_wait(place):
    """Raise in process 1; process 0 and its child wait for a minute, and hold a lock."""
    path = place.folder / "lock"
    if place.rank == 0:
        with open(path, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            subprocess.run(["sleep", "60"], pass_fds=[file.fileno()])
    while not path.exists():
        time.sleep(0.02)
    raise RuntimeError("the second process has failed")


def wait(place):
    """Wait for a minute."""
    time.sleep(60)


@pytest.mark.parametrize("kind", processes.BACKENDS)
def test_a_group_adds_over_all_its_processes_or_devices(kind, tmp_path):
    for result in processes.run(kind, total, tmp_path, x=X):
        np.testing.assert_allclose(result["total"], X.sum(axis=0), rtol=1e-5)


def test_a_failed_process_fails_the_test_with_its_stderr_and_ends_the_group(tmp_path):
    start = time.monotonic()
    error = pytest.raises(pytest.fail.Exception, match="the second process has failed")
    with processes.Group("jax", fail_or_wait, tmp_path) as group, error:
        group.results(60)
    assert all(process.returncode for process in group.processes)
    with open(group.folder / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the lock is free if the child of process 0 has ended
    assert time.monotonic() - start < 40


def test_a_program_that_takes_too_long_fails_the_test_and_is_killed(tmp_path):
    error = pytest.raises(pytest.fail.Exception, match="not ready in time")
    with processes.Group("jax_devices", wait, tmp_path) as group, error:
        group.results(0.5)
    assert group.processes[0].returncode == -signal.SIGKILL
