"""How far rounding alone takes a model's values: what a tolerance has to allow."""

import math
from typing import Any

import keras
import numpy as np

from keras_norm.clone import rebuilt
from keras_norm.export import signature
from keras_norm.export.comparing.compare import TOLERANCES
from keras_norm.export.runners import Arrays, KerasRunner
from keras_norm.keras_internals import nodes_in_order
from keras_norm.walk import named_layers

# A tolerance of `TOLERANCES` serves as many as this many layers times the square root of the
# timesteps. Measured (docs/export.md): float32 is then off from float64 by an eighth of it.
REACH = 10.0


def default_share(precision: str, layers: int, timesteps: int) -> float:
    """The default tolerance, as a share of each value and of an output's largest.

    ::

        share = TOLERANCES[precision] max(1, layers sqrt(timesteps) / 10)

    for float32 and float64. Half precision and 8-bit weights are off by their own rounding, which
    is far larger than what adds up on the way.

    Args:
        precision: a key of `keras_norm.export.comparing.compare.TOLERANCES`.
        layers: number of layers with weights that values pass through, one after the other.
        timesteps: number of timesteps that a recurrent layer runs; 1 without one.

    Example:
    >>> default_share("float32", layers=4, timesteps=100)
    4e-05
    """
    share = TOLERANCES[precision]
    if precision in ("float32", "float64"):
        share *= max(1.0, layers * math.sqrt(timesteps) / REACH)
    return share


def layers_in_series(model: Any) -> int:
    """The largest number of layers with weights on any way from an input to an output.

    Args:
        model: a functional or Sequential model; nested ones count as what they hold.
    """
    depths: dict[int, int] = {}
    for node in nodes_in_order(model):
        before = max((depths.get(id(fed), 0) for fed in node.input_tensors), default=0)
        depth = before + _own_depth(node.operation)
        depths.update((id(tensor), depth) for tensor in node.outputs)
    return max(depths.get(id(tensor), 0) for tensor in model.outputs)


def _own_depth(operation: Any) -> int:
    if isinstance(operation, keras.Model) and getattr(operation, "outputs", None):
        return layers_in_series(operation)
    return int(bool(getattr(operation, "weights", ())))


def is_recurrent(model: Any) -> bool:
    """Whether a recurrent layer is among the layers, however nested."""
    return any(isinstance(layer, keras.layers.RNN) for _, layer in named_layers(model))


def rounding(model: Any, inputs: Arrays, expected: Arrays) -> dict[str, float]:
    """How far the model's outputs are from those of the same model computed in float64.

    Args:
        model: a functional or Sequential model.
        inputs: arrays by input name.
        expected: what the model gives for them, by output name.

    Returns:
        The largest |output - float64 output| by output name.

    Raises:
        ValueError: the model cannot be rebuilt in float64.
    """
    wide = rebuilt(model, _in_float64)
    # A clone may name its inputs and outputs anew; their order stays.
    named = zip(signature.input_specs(wide), signature.input_specs(model), strict=True)
    exact = KerasRunner(wide)({new: inputs[name] for new, name in named}).values()
    return {
        name: float(np.abs(np.subtract(value, other, dtype=np.float64)).max(initial=0.0))
        for (name, value), other in zip(expected.items(), exact, strict=True)
    }


def _in_float64(node: Any) -> Any:
    """A nested config with every floating dtype and dtype policy replaced by float64."""
    if isinstance(node, list | tuple):
        return type(node)(_in_float64(item) for item in node)
    if not isinstance(node, dict):
        return node
    return {
        key: "float64" if key == "dtype" and _is_floating(value) else _in_float64(value)
        for key, value in node.items()
    }


def _is_floating(dtype: Any) -> bool:
    name = dtype["config"].get("name", "") if isinstance(dtype, dict) else str(dtype)
    return "float" in name
