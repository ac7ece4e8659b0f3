"""How far rounding alone takes a model's values."""

from typing import Any

import ml_dtypes
import numpy as np

from keras_norm.clone import rebuild_model
from keras_norm.export import signature
from keras_norm.export.compare.element_differences import absolute_difference, both_nan, kind_of
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.precision import model_precision
from keras_norm.export.runtimes.runner import Arrays

# Two ways of rounding are this many times as far from each other, at most, as one is from float64.
MAGNIFIED = 4.0
# How many times the weights are moved: one way of rounding can be near float64 by luck.
MOVES = 4


def rounding(model: Any, inputs: Arrays, expected: Arrays) -> dict[str, float]:
    """How far rounding takes a model's outputs.

    From those of the same model in float64, and in float64 from those of the same model with every
    weight off by half a unit in its last place, at most: the larger of the two.

    Args:
        model: a functional or Sequential model.
        inputs: arrays by input name.
        expected: what the model gives for them, by output name.

    Returns:
        The largest difference by output name, of those outputs for which that is rounding: not
        where the model does not compute in float64, is random, or more than its config, so that an
        unchanged copy is off as well.
    """
    half = half_unit(model_precision(model, expected))
    rng = np.random.default_rng(0)
    # Whatever a layer raises in a copy, and in a precision that it was not written for.
    try:
        same, exact = rebuild_model(model), rebuild_model(model, _in_float64)
        unchanged = _apart(expected, _answers(same, model, inputs))
        wanted = _answers(exact, model, inputs)
        found = [_apart(expected, wanted)]
        weights = exact.get_weights()
        for _ in range(MOVES):
            exact.set_weights([moved(weight, half, rng) for weight in weights])
            found.append(_apart(wanted, _answers(exact, model, inputs)))
    except Exception:
        return {}
    return {
        name: max(apart[name] for apart in found)
        for name, off in found[0].items()
        if MAGNIFIED * unchanged[name] <= off
    }


def half_unit(precision: str) -> float:
    """Half a unit in the last place of 1, which rounding to a floating dtype may add or take."""
    return float(ml_dtypes.finfo(precision).eps) / 2


def moved(weight: np.ndarray, most: float, rng: np.random.Generator) -> np.ndarray:
    """A weight with its real values off by a random share of themselves, of at most `most`."""
    if weight.dtype.kind != "f":
        return weight
    return weight * (1 + rng.uniform(-most, most, weight.shape))


def _answers(copy: Any, model: Any, inputs: Arrays) -> Arrays:
    """What a copy of a model gives, by the names of the model's outputs."""
    # A copy may name its inputs and outputs anew; their order stays.
    named = zip(signature.input_specs(copy), signature.input_specs(model), strict=True)
    answers = KerasRunner(copy)({new: inputs[name] for new, name in named}).values()
    return dict(zip(signature.output_names(model), answers, strict=True))


def _apart(expected: Arrays, actual: Arrays) -> dict[str, float]:
    """The largest difference of every real output."""
    found = {}
    for name, value in expected.items():
        if kind_of(value) == "float" and value.size:
            difference = absolute_difference(value, actual[name])
            found[name] = float(np.where(both_nan(value, actual[name]), 0.0, difference).max())
    return found


def _in_float64(config: dict[str, Any]) -> dict[str, Any]:
    """A part of a config whose dtype, or dtype policy, is float64 where it is a floating one."""
    dtype = config.get("dtype")
    name = dtype["config"].get("name", "") if isinstance(dtype, dict) else str(dtype)
    return config | {"dtype": "float64"} if "float" in name else config
