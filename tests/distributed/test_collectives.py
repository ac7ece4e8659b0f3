"""A training step passes the bytes of docs/design/collectives.md to its collectives."""

import pathlib
import re

import keras
import numpy as np

import keras_norm
from tests import pages
from tests.distributed import processes

TIME, UNITS, FEATURES, ROWS = 5, 4, 3, 8
SUM = re.compile(r" all-reduce(?:-start)?\(")
LAYERS = {
    "LayerNormLSTM": lambda: keras_norm.LayerNormLSTM(UNITS),
    "BatchNormLSTM": lambda: keras_norm.BatchNormLSTM(UNITS, TIME),
    "synchronized": lambda: keras_norm.BatchNormLSTM(UNITS, TIME, synchronized=True),
    "BatchNormalization": keras_norm.BatchNormalization,
    "TimestepBatchNormalization": lambda: keras_norm.TimestepBatchNormalization(TIME),
}


def count_on_torch(place):
    """Return (collectives, bytes) of the statistics of each layer, and the size of its weights."""
    import torch

    all_reduce, calls, found = torch.distributed.all_reduce, [], {}

    def counted(x, *arguments):
        # The longest sequence of all ranks is one integer.
        calls.extend([x.nbytes] if x.is_floating_point() else [])
        return all_reduce(x, *arguments)

    torch.distributed.all_reduce = counted
    for name, build in LAYERS.items():
        layer = build()
        inputs = torch.randn(ROWS, TIME, FEATURES, requires_grad=True)
        calls.clear()
        layer(inputs, training=True).sum().backward()
        weights = sum(4 * np.prod(w.shape) for w in layer.trainable_variables)
        found[name] = np.array([len(calls), sum(calls), weights])
    return found


def fit_on_jax(place, name):
    """Train a step on several devices; XLA writes its program to a folder."""
    parallel = keras.distribution.DataParallel(auto_shard_dataset=False)
    keras.distribution.set_distribution(parallel)
    layers = [LAYERS[str(name)](), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((TIME, FEATURES)), *layers])
    model.compile("sgd", "mse")
    model.fit(np.ones((ROWS, TIME, FEATURES)), np.ones((ROWS, 1)), ROWS, verbose=0)
    return {}


def test_the_payload_of_torch_is_that_of_the_page(tmp_path):
    names: dict = {}
    code = pages.block("design/collectives.md", "def lstm_payload(timesteps, units, inputs):")
    exec(code, names)
    weights, statistics = names["lstm_payload"](TIME, UNITS, FEATURES)
    first, second = processes.run("torch", count_on_torch, tmp_path)
    for name, counted in first.items():
        np.testing.assert_array_equal(counted, second[name])
    assert first["LayerNormLSTM"][:2].tolist() == [0, 0]
    assert first["BatchNormLSTM"].tolist() == [1, statistics, weights]
    assert first["BatchNormalization"][:2].tolist() == [1, 8 * (2 * FEATURES + 1)]
    assert first["TimestepBatchNormalization"][:2].tolist() == [1, 8 * TIME * (2 * FEATURES + 1)]
    calls, size, _ = first["synchronized"]
    assert calls == 9 * TIME + 1  # and the count of sequences
    np.testing.assert_allclose(size, statistics, rtol=0.05)


def sums_of_jax(name: str, folder: pathlib.Path) -> list[int]:
    """Return the number of all-reduces in each function of the compiled training step."""
    options = f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_module_re=.*train_step"
    environment = {"XLA_FLAGS": options, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    processes.run("jax_devices", fit_on_jax, folder, environment=environment, name=np.array(name))
    (program,) = folder.glob("*train_step*after_optimizations.txt")
    functions = program.read_text().split("\n}\n")
    return sorted(filter(None, (len(SUM.findall(function)) for function in functions)))


def test_jax_adds_gradients_once_and_statistics_seven_times_per_timestep(tmp_path):
    assert sums_of_jax("LayerNormLSTM", tmp_path / "layer") == [1]
    # The gradients, and the loops over time: backward and forward.
    assert sums_of_jax("BatchNormLSTM", tmp_path / "batch") == [1, 2, 5]
