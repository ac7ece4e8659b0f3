"""The scripts of the guides give the weights of one device with the whole batch.

A script runs as the guide prints it, in real processes or on logical CPU devices.
"""

import importlib.util
import json
import subprocess

import keras
import numpy as np
import pytest

from tests import pages
from tests.distributed import processes

REPLICAS = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""


def start(folder, script, backend, *environments):
    """Start a process of a script for each dict of environment variables."""
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    folder.mkdir(exist_ok=True)
    (folder / "script.py").write_text(script)
    shared = processes.child_environment(backend)
    commands = [["script.py"]] * len(environments)
    return processes.Processes(commands, folder, [shared | own for own in environments], folder)


def trained(folder, script, backend, *environments):
    """Run a script, and return the weights of the model that it saves."""
    with start(folder, script, backend, *environments) as group:
        group.wait_for_all(150)
    return weights(folder)


def weights(folder):
    return keras.saving.load_model(folder / "model.keras").get_weights()


def assert_equal(weights, expected, atol):
    for weight, value in zip(weights, expected, strict=True):
        np.testing.assert_allclose(weight, value, rtol=0, atol=atol)


def two_workers():
    """Return the variables of two TensorFlow workers."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in processes.free_ports(2)]}
    tasks = [{"type": "worker", "index": index} for index in range(2)]
    return [{"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})} for task in tasks]


def two_ranks():
    """Return the variables that torchrun sets for two ranks."""
    (port,) = processes.free_ports(1)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return [address | {"RANK": rank, "WORLD_SIZE": "2"} for rank in "01"]


def test_fit_on_two_jax_devices_equals_one_device(tmp_path):
    script = pages.block("guides/distributed.md", "# train_devices.py")
    counts = [{"JAX_NUM_CPU_DEVICES": count} for count in "12"]
    one, two = (trained(tmp_path / str(n), script, "jax", v) for n, v in enumerate(counts))
    assert_equal(two, one, 1e-5)


def test_fit_on_two_replicas_equals_one_device_with_a_smaller_last_batch(tmp_path):
    script = pages.block("guides/tensorflow_strategies.md", "# train_replicas.py")
    one = trained(tmp_path / "one", script, "tensorflow", {})
    two = trained(tmp_path / "two", REPLICAS + script, "tensorflow", {})
    assert_equal(two, one, 2e-6)


def test_two_workers_equal_one_device_after_one_is_killed_and_both_start_again(tmp_path):
    script = pages.block("guides/tensorflow_strategies.md", "# train_workers.py")
    expected = trained(tmp_path / "one", script, "tensorflow", {})
    folder = tmp_path / "two"
    with start(folder, script, "tensorflow", *two_workers()) as group:
        group.wait_for_file(folder / "checkpoints" / "0" / "checkpoint", 90)
        group.kill(1)
        assert group.wait(0, 60) != 0  # the other worker raises
        assert "Error" in group.stderr(0)
    assert not (folder / "model.keras").exists()
    assert_equal(trained(folder, script, "tensorflow", *two_workers()), expected, 1e-5)


def test_two_ranks_of_torch_equal_one_rank(tmp_path):
    script = pages.block("guides/pytorch_ranks.md", "# train_ranks.py")
    ranks = two_ranks()
    one = trained(tmp_path / "one", script, "torch", ranks[0] | {"WORLD_SIZE": "1"})
    assert_equal(trained(tmp_path / "two", script, "torch", *ranks), one, 1e-5)


def test_the_manifest_has_the_schema_of_kubernetes():
    yaml, kubernetes_validate = map(pytest.importorskip, ("yaml", "kubernetes_validate"))
    documents = list(
        yaml.safe_load_all(pages.block("guides/clusters.md", "apiVersion: v1", "yaml"))
    )
    assert [document["kind"] for document in documents] == ["Service", "Job"]
    for document in documents:
        kubernetes_validate.validate(document, "1.37", strict=True)


def test_bash_can_read_the_job_of_slurm(tmp_path):
    script = tmp_path / "train.sh"
    script.write_text(pages.block("guides/clusters.md", "#!/bin/bash", "sh"))
    subprocess.run(["bash", "-n", script], check=True)
