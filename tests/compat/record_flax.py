"""Record weights and outputs of Flax modules: python -m tests.compat.record_flax.

`make test-compat` runs this program in an environment with Flax, and then the tests. It writes
tests/data/flax_weights.npz, with which `make test` compares.
"""

import pathlib
from collections.abc import Callable

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

PATH = pathlib.Path(__file__).parents[1] / "data" / "flax_weights.npz"
FEATURES, UNITS, TOKENS = 3, 4, 7
LENGTHS = np.array([5, 3])
LINEN_CELLS = {
    "LSTMCell": nn.LSTMCell,
    "OptimizedLSTMCell": nn.OptimizedLSTMCell,
    "GRUCell": nn.GRUCell,
    "SimpleCell": nn.SimpleCell,
}
NNX_CELLS = {name: getattr(nnx, name) for name in LINEN_CELLS}


class LinenModel(nn.Module):
    """A compact model: Flax names its modules, and does not nest the cells of RNN."""

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(TOKENS, FEATURES)(tokens)
        forward, backward = (nn.RNN(nn.OptimizedLSTMCell(UNITS)) for _ in range(2))
        x = nn.Bidirectional(forward, backward)(x, seq_lengths=LENGTHS)
        x = nn.LayerNorm()(x)
        x = nn.RNN(nn.GRUCell(UNITS), reverse=True, keep_order=True)(x, seq_lengths=LENGTHS)
        x = nn.RMSNorm()(x)
        x = nn.BatchNorm(use_running_average=True)(x)
        return nn.Dense(2)(x)


class NnxModel(nnx.Module):
    """The model of `LinenModel` in nnx, without the order of its names."""

    def __init__(self, rngs):
        def lstm():
            return nnx.RNN(nnx.OptimizedLSTMCell(FEATURES, UNITS, rngs=rngs))

        self.embed = nnx.Embed(TOKENS, FEATURES, rngs=rngs)
        self.encoder = nnx.Bidirectional(lstm(), lstm())
        self.norm = nnx.LayerNorm(2 * UNITS, rngs=rngs)
        cell = nnx.GRUCell(2 * UNITS, UNITS, rngs=rngs)
        self.decoder = nnx.RNN(cell, reverse=True, keep_order=True)
        self.rms = nnx.RMSNorm(UNITS, rngs=rngs)
        self.batch = nnx.BatchNorm(UNITS, use_running_average=True, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, deterministic=True, rngs=rngs)
        self.heads = nnx.List([nnx.Linear(UNITS, 2, rngs=rngs)])

    def __call__(self, tokens):
        x = self.norm(self.encoder(self.embed(tokens), seq_lengths=LENGTHS))
        x = self.rms(self.decoder(x, seq_lengths=LENGTHS))
        return self.heads[0](self.dropout(self.batch(x)))


def randomize(tree):
    """Replace all weights by random positive and negative numbers; variances become positive."""
    rng = np.random.default_rng(0)

    def draw(path, leaf):
        value = rng.normal(0, 0.5, leaf.shape).astype("float32")
        return np.abs(value) if "var" in jax.tree_util.keystr(path) else value

    return jax.tree_util.tree_map_with_path(draw, tree)


def record_linen(module, x):
    variables = randomize(module.init(jax.random.key(0), x))
    return variables, module.apply(variables, x)


def record_nnx(module, x):
    nnx.update(module, randomize(nnx.state(module, nnx.Any(nnx.Param, nnx.BatchStat))))
    return nnx.state(module), module(x)


def flatten(tree, path=()):
    """Yield names joined by slashes, and arrays. The keys of random numbers are not arrays."""
    if hasattr(tree, "items"):
        for name, value in tree.items():
            yield from flatten(value, (*path, str(name)))
    elif not jnp.issubdtype(tree.dtype, jax.dtypes.prng_key):
        yield "/".join(path), np.asarray(tree)


def nnx_recurrence(cell: str, seed: int) -> nnx.RNN:
    return nnx.RNN(NNX_CELLS[cell](FEATURES, UNITS, rngs=nnx.Rngs(seed)))


def main() -> None:
    x = np.random.default_rng(1).normal(size=(2, 5, FEATURES)).astype("float32")
    tokens = np.random.default_rng(2).integers(0, TOKENS, (2, 5))
    cases: dict[str, tuple[Callable, object, np.ndarray]] = {
        "linen model": (record_linen, LinenModel(), tokens),
        "nnx model": (record_nnx, NnxModel(nnx.Rngs(0)), tokens),
    }
    for name, cls in LINEN_CELLS.items():
        pair = [nn.RNN(cls(UNITS)) for _ in range(2)]
        cases[f"linen {name}"] = (record_linen, nn.RNN(cls(UNITS)), x)
        cases[f"linen Bidirectional {name}"] = (record_linen, nn.Bidirectional(*pair), x)
        nnx_pair = [nnx_recurrence(name, seed) for seed in range(2)]
        cases[f"nnx {name}"] = (record_nnx, nnx_recurrence(name, 0), x)
        cases[f"nnx Bidirectional {name}"] = (record_nnx, nnx.Bidirectional(*nnx_pair), x)
    arrays = {"versions": np.array(f"flax {flax.__version__}, jax {jax.__version__}")}
    for name, (record, module, inputs) in cases.items():
        weights, outputs = record(module, inputs)
        arrays |= {f"{name}|inputs": inputs, f"{name}|outputs": np.asarray(outputs)}
        arrays |= {f"{name}|weights|{path}": array for path, array in flatten(weights)}
    np.savez_compressed(PATH, **arrays)
    print(f"{PATH}: {len(cases)} modules of {arrays['versions']}")


if __name__ == "__main__":
    main()
