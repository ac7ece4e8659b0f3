"""Record weights and outputs of sheeprl's GRU cell: python -m tests.compat.record_sheeprl.

`make test-compat` runs this program in an environment with PyTorch and sheeprl, and then the tests.
It writes tests/data/sheeprl_weights.npz, with which `make test` compares.

sheeprl's other dependencies are not installed. This program executes the two files of the cell.
"""

import importlib.metadata
import json

import numpy as np
import torch

from tests.compat.record_torch import load_module, stub
from tests.compat.recorded import FEATURES, SHEEPRL, UNITS

BATCH, TIME = 3, 7
RNG = np.random.default_rng(11)


def models():
    """Import sheeprl/models/models.py."""
    files = {str(file): file.locate() for file in importlib.metadata.files("sheeprl")}
    missing = stub("sheeprl") | stub("sheeprl.utils")
    load_module("sheeprl.utils.model", files["sheeprl/utils/model.py"], **missing)
    return load_module("sheeprl.models.models", files["sheeprl/models/models.py"])


def cells():
    """Return the cells as the agents of DreamerV3 and DreamerV2 create them."""
    sheeprl = models()
    third = {"bias": False, "layer_norm_cls": sheeprl.LayerNorm, "layer_norm_kw": {"eps": 1e-3}}
    second = {"bias": True, "layer_norm_cls": torch.nn.LayerNorm}
    for name, options in (("dreamer_v3", third), ("dreamer_v2", second)):
        yield name, sheeprl.LayerNormGRUCell(FEATURES, UNITS, **options).double()


def main():
    """Write the file."""
    arrays = {}
    for name, cell in cells():
        for entry in cell.state_dict().values():
            entry.copy_(torch.tensor(RNG.normal(0.0, 0.7, entry.shape)))
        x = RNG.normal(size=(BATCH, TIME, FEATURES))
        h, outputs = torch.zeros(BATCH, UNITS, dtype=torch.float64), []
        with torch.no_grad():
            for x_t in torch.tensor(x).unbind(1):
                h = cell(x_t, h)
                outputs.append(h)
        state = {f"state/{key}": entry.numpy() for key, entry in cell.state_dict().items()}
        case = {"x": x, "y": torch.stack(outputs, 1).numpy(), **state}
        arrays |= {f"{name}/{key}": array for key, array in case.items()}
    versions = {name: importlib.metadata.version(name) for name in ("sheeprl", "torch", "numpy")}
    np.savez_compressed(SHEEPRL, versions=json.dumps(versions), **arrays)
    print(f"{SHEEPRL.name}: {SHEEPRL.stat().st_size:,} bytes, {versions}")


if __name__ == "__main__":
    main()
