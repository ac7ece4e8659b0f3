"""Compute outputs with PyTorch, NeMo and haste: python -m tests.compat.record_torch.

`make test-compat` runs this program in an environment with the libraries. It writes the state
dicts, the inputs and the outputs to tests/data/torch_weights.npz, so that `make test` needs none of
the libraries.
"""

import contextlib
import importlib.metadata
import importlib.util
import json
import logging
import pathlib
import sys
import tempfile
import types

import numpy as np
import safetensors.numpy
import torch
from torch import nn

from tests.compat.pages import python_blocks
from tests.compat.recorded import FEATURES, TORCH, UNITS

RNG = np.random.default_rng(7)
BATCH, TIME, WORDS = 3, 7, 9
# The Python files of haste_pytorch_cpu. Its operations for GPUs need compilation and are left out.
HASTE = pathlib.Path("build/compat/haste_pytorch_cpu-0.5.5/frameworks/pytorch")


def load_module(name, path, **missing):
    """Import a Python file or package by its path, with stubs in place of missing modules."""
    sys.modules.update(missing)
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stub(name, **attributes):
    module = types.ModuleType(name)
    vars(module).update(attributes)
    return {name: module}


def nemo():
    """Import NeMo's recurrent layers, which need only the logger of the other modules of NeMo."""
    (path,) = (
        file.locate()
        for file in importlib.metadata.files("nemo_toolkit")
        if str(file) == "nemo/collections/common/parts/rnn.py"
    )
    missing = stub("nemo") | stub("nemo.utils", logging=logging)
    return load_module("nemo_rnn", path, **missing)


def haste():
    """Import haste, whose layers run on the CPU without the compiled library."""
    return load_module("haste", HASTE / "__init__.py", **stub("haste_pytorch_lib"))


def unrolled(cell):
    """Return a function that calls a cell at each timestep."""

    def run(x):
        states, outputs = None, []
        for x_t in x.unbind(1):
            states = cell(x_t, states)
            outputs.append(states[0] if isinstance(states, tuple) else states)
        return torch.stack(outputs, 1)

    return run


def time_first(module, count=None):
    """Return a function that calls a module on (time, batch, features) and zero states."""
    pair = (torch.zeros(BATCH, UNITS),) * 2
    states = pair if count is None else [pair] * count
    return lambda x: module(x.transpose(0, 1), states)[0].transpose(0, 1)


def outputs(module):
    """Return a function that returns the output sequence of a recurrent module."""
    return lambda x: module(x)[0]


def transposed(module):
    """Return nn.BatchNorm1d on (batch, time, features); PyTorch has the features at axis 1."""
    return lambda x: module(x.transpose(1, 2)).transpose(1, 2)


class Directions(nn.Module):
    """BidirLSTMLayer of TorchScript's benchmarks, of two layers of NeMo."""

    def __init__(self, layers):
        super().__init__()
        self.directions = nn.ModuleList(layers)

    def forward(self, x, states):
        forward, backward = self.directions
        y, z = forward(x, states[0])[0], backward(x.flip(0), states[1])[0].flip(0)
        return torch.cat([y, z], -1), states


class Tagger(nn.Module):
    """A whole model: embedding, stacked bidirectional LSTM, LayerNorm, and a linear head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, FEATURES)
        self.encoder = nn.ModuleDict(
            {"lstm": nn.LSTM(FEATURES, UNITS, 2, bidirectional=True, batch_first=True)}
        )
        self.norm = nn.LayerNorm(2 * UNITS)
        self.batch_norm = nn.BatchNorm1d(2 * UNITS)
        self.head = nn.Linear(2 * UNITS, 3)

    def forward(self, ids):
        y = self.norm(self.encoder["lstm"](self.embedding(ids))[0])
        return self.head(transposed(self.batch_norm)(y))


def cases():
    """Return the modules by the names of their cases, each with the module that is called."""
    found = {}

    def add(name, module, called=lambda module: module):
        found[name] = module, called(module)

    for name, cls in (("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)):
        options = {"batch_first": True}
        add(name, cls(FEATURES, UNITS, **options), outputs)
        add(f"{name}_no_bias", cls(FEATURES, UNITS, bias=False, **options), outputs)
        options |= {"num_layers": 2}
        add(f"{name}_stacked", cls(FEATURES, UNITS, **options), outputs)
        add(f"{name}_bidirectional", cls(FEATURES, UNITS, bidirectional=True, **options), outputs)
    options = {"proj_size": UNITS - 1, "bidirectional": True, "batch_first": True}
    add("lstm_projection", nn.LSTM(FEATURES, UNITS, 2, **options), outputs)
    relu = nn.RNN(FEATURES, UNITS, nonlinearity="relu", batch_first=True)
    add("rnn_relu", relu, outputs)
    for name, cls in (("lstm", nn.LSTMCell), ("gru", nn.GRUCell), ("rnn", nn.RNNCell)):
        add(f"{name}_cell", cls(FEATURES, UNITS), unrolled)
    add("layer_norm", nn.LayerNorm(FEATURES))
    add("batch_norm", nn.BatchNorm1d(FEATURES), transposed)
    add("linear", nn.Linear(FEATURES, UNITS))
    rnn = nemo()
    stacked = rnn.ln_lstm(FEATURES, UNITS, 2, None, 1.0, None)
    add("nemo", stacked, lambda module: time_first(module, 2))
    layer = rnn.LSTMLayer(rnn.LayerNormLSTMCell, FEATURES, UNITS, 1.0)
    add("torchscript", layer, time_first)
    layers = [rnn.LSTMLayer(rnn.LayerNormLSTMCell, FEATURES, UNITS, 1.0) for _ in range(2)]
    add("torchscript_bidirectional", Directions(layers), lambda module: time_first(module, 2))
    for name, zoneout in (("haste", 0.0), ("haste_zoneout", 0.3)):
        add(name, haste().LayerNormLSTM(FEATURES, UNITS, True, zoneout=zoneout), outputs)
    add("tagger", Tagger())
    return found


def randomize(module):
    """Draw random parameters and moving statistics of the sizes of trained ones."""
    for name, entry in module.state_dict().items():
        if name.endswith("num_batches_tracked"):
            entry.fill_(11)
        elif name.endswith("running_var"):
            entry.copy_(torch.tensor(RNG.uniform(0.4, 2.0, entry.shape)))
        else:
            entry.copy_(torch.tensor(RNG.normal(0.0, 0.7, entry.shape)))


def page_files():
    """Run the first block of docs/guides/from_pytorch.md, and read the files that it writes."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(compile(python_blocks("from_pytorch.md")[0], "the page", "exec"), {})
        files = {path.name: safetensors.numpy.load_file(path) for path in pathlib.Path().iterdir()}
    return {f"{name}/{key}": array for name, file in files.items() for key, array in file.items()}


def main():
    """Write the file."""
    arrays = page_files()
    for case, (module, called) in cases().items():
        randomize(module)
        x = RNG.normal(size=(BATCH, TIME, FEATURES)).astype("float32")
        if case == "tagger":
            x = RNG.integers(0, WORDS, (BATCH, TIME))
        with torch.no_grad():
            module.eval()
            y = called(torch.tensor(x)).numpy()
        state = {f"state/{name}": t.numpy() for name, t in module.state_dict().items()}
        arrays |= {f"{case}/{key}": a for key, a in {"x": x, "y": y, **state}.items()}
    packages = ("torch", "nemo_toolkit", "numpy")
    versions = {name: importlib.metadata.version(name) for name in packages}
    versions["haste_pytorch_cpu"] = "0.5.5"
    np.savez_compressed(TORCH, versions=json.dumps(versions), **arrays)
    print(f"{TORCH.name}: {TORCH.stat().st_size:,} bytes, {versions}")


if __name__ == "__main__":
    main()
