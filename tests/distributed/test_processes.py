"""The rig ends groups of processes that fail or hang; the other tests here collect results."""

import fcntl
import signal
import subprocess
import time

import pytest

from tests.distributed import processes


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
