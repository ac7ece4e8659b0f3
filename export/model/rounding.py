"""Measure the differences that rounding alone causes in a model's outputs."""

import keras
import ml_dtypes
import numpy as np

from keras_norm.clone import rebuild_model
from keras_norm.export import signature
from keras_norm.export.compare.arrays import absolute_difference, both_nan, kind_of
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.reference_runner import TRAINED
from keras_norm.export.model.tolerance_factors import model_precision
from keras_norm.typing import Array, Arrays, Config

# A difference of up to 4 times the measured rounding error is accepted. Only the rounding
# error of the Keras model is measured, and an exported file rounds differently.
MAGNIFIED = 4.0
# Number of random perturbations of the weights. After a single perturbation the outputs can be near
# the float64 outputs by chance.
PERTURBATIONS = 4


def rounding_errors(model: keras.Model, inputs: Arrays, expected: Arrays) -> dict[str, float]:
    """Measure the largest difference that rounding causes in each output of a model.

    There are two measurements, and the larger difference counts. The first one compares the model
    with its copy in float64. The second one compares this float64 copy with itself after random
    perturbations of its weights. Each perturbation is at most half a unit in the last place.

    Args:
        model: a functional or Sequential model.
        inputs: arrays by input name.
        expected: the model's outputs for `inputs`, by name.

    Returns:
        The largest difference by output name. Outputs whose difference has another cause are left
        out: an unchanged copy of the model differs too, because the model is random or its config
        does not describe it completely. Empty if the model does not run in float64.
    """
    half = half_unit(model_precision(model, expected))
    # Another backend may compute other outputs, which is no rounding error.
    if model in TRAINED:
        expected = KerasRunner(model)(inputs)
    rng = np.random.default_rng(0)
    # A layer may raise any error in a copy, or in a precision that it was not written for. The
    # rounding errors are then unknown, so the result is empty.
    try:
        same, exact = rebuild_model(model), rebuild_model(model, _in_float64)
        unchanged = _largest_differences(expected, _outputs_of_copy(same, model, inputs))
        wanted = _outputs_of_copy(exact, model, inputs)
        found = [_largest_differences(expected, wanted)]
        weights = exact.get_weights()
        for _ in range(PERTURBATIONS):
            exact.set_weights([perturb(weight, half, rng) for weight in weights])
            outputs = _outputs_of_copy(exact, model, inputs)
            found.append(_largest_differences(wanted, outputs))
    except Exception:
        return {}
    return {
        name: max(differences[name] for differences in found)
        for name, difference in found[0].items()
        if MAGNIFIED * unchanged[name] <= difference
    }


def half_unit(precision: str) -> float:
    """Return the largest relative rounding error of a floating dtype: half of its epsilon."""
    return float(ml_dtypes.finfo(precision).eps) / 2


def perturb(weight: Array, most: float, rng: np.random.Generator) -> Array:
    """Perturb a float weight: multiply each value by 1 + u, with u random in [-most, most]."""
    if weight.dtype.kind != "f":
        return weight
    return np.asarray(weight * (1 + rng.uniform(-most, most, weight.shape)))


def _outputs_of_copy(copy: keras.Model, model: keras.Model, inputs: Arrays) -> Arrays:
    """Run a copy of a model, and return the outputs under the output names of the model."""
    # A copy may have other input and output names, in an unchanged order.
    names = zip(signature.input_specs(copy), signature.input_specs(model), strict=True)
    outputs = KerasRunner(copy)({new: inputs[name] for new, name in names}).values()
    return dict(zip(signature.output_names(model), outputs, strict=True))


def _largest_differences(expected: Arrays, actual: Arrays) -> dict[str, float]:
    """Return the largest |actual - expected| of every float output, with 0 where both are NaN."""
    found = {}
    for name, value in expected.items():
        if kind_of(value) == "float" and value.size:
            difference = absolute_difference(value, actual[name])
            found[name] = float(np.where(both_nan(value, actual[name]), 0.0, difference).max())
    return found


def _in_float64(config: Config) -> Config:
    """Replace the float dtype, or the dtype policy, in a layer's config by float64."""
    dtype = config.get("dtype")
    name = dtype["config"].get("name", "") if isinstance(dtype, dict) else str(dtype)
    return config | {"dtype": "float64"} if "float" in name else config
