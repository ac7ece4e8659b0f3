"""The example on two processes: a killed process ends the run, and a restart loses nothing."""

import os

import keras
import numpy as np
import pytest

from tests.distributed import processes

EPOCHS, STEPS = 4, 22
JOB = os.getpid()  # JAX derives the port of process 0 from it


def train_without_interruption(place):
    """Train in two processes; return the weights, and the error if process 1 has a batch less."""
    from examples import distributed

    keras.utils.set_random_seed(0)
    distribution = keras.distribution.DataParallel(auto_shard_dataset=False)
    x, y, *_ = distributed.load()
    checkpoint = place.folder / "model.keras"
    distributed.train(distribution, x, y, EPOCHS, checkpoint)
    model = keras.saving.load_model(checkpoint)
    results = {str(i): weight for i, weight in enumerate(model.get_weights())}
    own = slice(len(x) - place.rank * distributed.BATCH // 2)
    with pytest.raises(AssertionError) as error:
        distributed.train(distribution, x[own], y[own], EPOCHS, checkpoint)
    return results | {"error": str(error.value)}


def start(folder, place):
    """Start the example twice; `place` has the options and the variables of each process."""
    common = ["-m", "examples.distributed", "--out", str(folder / "out"), "--epochs", str(EPOCHS)]
    commands = [[*common, *place(rank)[0]] for rank in range(2)]
    environments = [processes.child_environment("jax") | place(rank)[1] for rank in range(2)]
    return processes.Processes(commands, folder, environments)


def on_this_machine(rank):
    return ["--processes", "2", "--process", str(rank)], {}


def on_slurm(rank):
    names = {"SLURM_JOB_ID": JOB, "SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_NTASKS": 2}
    names |= {"SLURM_PROCID": rank, "SLURM_LOCALID": rank}
    return [], {name: str(value) for name, value in names.items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the results of both processes of a run without interruption."""
    folder = tmp_path_factory.mktemp("expected")
    return processes.run("jax", train_without_interruption, folder)


def test_a_killed_run_starts_again_and_equals_a_run_without_interruption(expected, tmp_path):
    checkpoint = tmp_path / "out" / "model.keras"
    with start(tmp_path, on_this_machine) as group:
        group.wait_for_file(checkpoint, 120)
        group.kill(1)
        assert group.wait(0, 60) != 0  # process 0 does not wait for ever
    epoch = int(keras.saving.load_model(checkpoint).optimizer.iterations) // STEPS
    assert 0 < epoch < EPOCHS
    with start(tmp_path, on_slurm) as group:
        group.wait_for_all(180)
        texts = group.stderr(0), group.stderr(1)
    assert f"Epoch {epoch}/" not in texts[0]
    assert f"Epoch {epoch + 1}/{epoch + 1}" in texts[0]
    assert all("All 2 processes have equal weights and moving" in text for text in texts)
    assert "PASS: 1 artifact equals the Keras model" in texts[0]
    for i, weight in enumerate(keras.saving.load_model(checkpoint).get_weights()):
        np.testing.assert_array_equal(weight, expected[0][str(i)])


def test_all_processes_raise_if_one_has_fewer_samples(expected):
    for found in expected:
        message = "The processes have different numbers of samples. Expected: [704 672]"
        assert message in str(found["error"])
