"""How far rounding alone takes a model's values."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_norm.clone import rebuilt
from keras_norm.export import signature
from keras_norm.export.comparing.elements import absolute_difference, both_nan, kind_of
from keras_norm.export.runners import Arrays, KerasRunner

# Two ways of rounding are this many times as far from each other, at most, as one is from float64.
MAGNIFIED = 4.0


def rounding(model: Any, inputs: Arrays, expected: Arrays) -> dict[str, float]:
    """How far the model's outputs are from those of the same model computed in float64.

    Args:
        model: a functional or Sequential model.
        inputs: arrays by input name.
        expected: what the model gives for them, by output name.

    Returns:
        The largest |output - float64 output| by output name, of those outputs for which that is
        rounding: not where the model does not compute in float64, is random, or more than its
        config, so that an unchanged copy is off as well.
    """
    # Whatever a layer raises in a copy, and in a precision that it was not written for.
    try:
        floor = _distance(model, _in_float64, inputs, expected)
        unchanged = _distance(model, lambda config: config, inputs, expected)
    except Exception:
        return {}
    return {n: found for n, found in floor.items() if MAGNIFIED * unchanged[n] <= found}


def _distance(
    model: Any, change: Callable[[Any], Any], inputs: Arrays, expected: Arrays
) -> dict[str, float]:
    """How far real outputs are from those of a copy of the model with a changed config."""
    copy = rebuilt(model, change)
    # A copy may name its inputs and outputs anew; their order stays.
    named = zip(signature.input_specs(copy), signature.input_specs(model), strict=True)
    answer = KerasRunner(copy)({new: inputs[name] for new, name in named}).values()
    return {
        name: float(np.where(both_nan(value, other), 0.0, absolute_difference(value, other)).max())
        for (name, value), other in zip(expected.items(), answer, strict=True)
        if kind_of(value) == "float" and value.size
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
