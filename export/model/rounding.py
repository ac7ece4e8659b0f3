"""Accept and explain the differences that rounding alone causes in a model's outputs."""

import dataclasses
from collections.abc import Iterable

import keras
import ml_dtypes
import numpy as np

from keras_norm.clone import rebuild_model
from keras_norm.export import signature
from keras_norm.export.compare.arrays import absolute_difference, both_nan, kind_of, magnitude
from keras_norm.export.compare.samples import Case
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.reference_runner import TRAINED
from keras_norm.export.model.tolerance_factors import model_precision
from keras_norm.export.results.output_comparison import OutputComparison
from keras_norm.typing import Array, Arrays, Config

# A difference of up to 4 times the rounding error of the Keras model is accepted. The rounding
# error of an exported file is not measured, and may be larger.
MAGNIFIED = 4.0
# A difference of more than 5% of an output's largest absolute value fails, even if rounding causes
# it. A check that accepts a larger difference would also accept wrong outputs.
MOST = 5e-2
# Number of random perturbations of the weights. A single perturbation is not enough: it may change
# the outputs too little by chance.
PERTURBATIONS = 4


class Rounding:
    """The differences that rounding alone causes in a model's outputs.

    A recurrence can magnify rounding errors, and so does a norm of equal values, which divides them
    by sqrt(epsilon). No fixed tolerance is right for such a model. A difference is therefore
    explained by rounding if it is at most `MAGNIFIED` times the measured rounding error. It is
    accepted if it also is at most `MOST` times the largest output.

    Args:
        model: a functional or Sequential model.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        # id(inputs) -> (inputs, rounding errors). The stored inputs are never deleted, so Python
        # does not give their id to other inputs.
        self._known: dict[int, tuple[Arrays, dict[str, float]]] = {}

    def errors(self, case: Case) -> dict[str, float]:
        """Return the rounding error of each output. Only the first call for `case` measures it."""
        if id(case.inputs) not in self._known:
            measured = rounding_errors(self.model, case.inputs, case.outputs)
            self._known[id(case.inputs)] = case.inputs, measured
        return self._known[id(case.inputs)][1]

    def accept(self, case: Case, result: OutputComparison) -> OutputComparison:
        """Accept a difference that rounding explains: return a comparison that passes.

        Args:
            case: the test inputs, with the outputs of the model.
            result: the comparison of one output with `case.outputs`.

        Returns:
            `result`, if it passes already or if rounding does not explain the difference. Else a
            comparison with a wider `atol`, and with the rounding error in `rounding`.
        """
        needed = result.atol_needed
        if result or result.problem or needed is None:
            return result
        limit = MOST * magnitude(case.outputs[result.output])
        if needed > limit:
            return result
        error = self.errors(case).get(result.output, 0.0)
        limit = min(limit, MAGNIFIED * error)
        if needed > limit:
            return result
        return dataclasses.replace(
            result, passed=True, atol=limit, used=needed / limit, rounding=error
        )

    def explain(self, case: Case, results: Iterable[OutputComparison]) -> str | None:
        """Describe the rounding error if it explains every failed comparison; else return None.

        Args:
            case: the test inputs, with the outputs of the model.
            results: the comparisons of an artifact's outputs with `case.outputs`.
        """
        errors = self.errors(case)
        failed = [result for result in results if not result]
        limits = ((c.max_abs, MAGNIFIED * errors.get(c.output, 0.0)) for c in failed)
        # If a difference is NaN, `0 < apart <= limit` is false: rounding does not explain NaN.
        if not all(apart is not None and 0 < apart <= limit for apart, limit in limits):
            return None
        worst = max(failed, key=lambda c: c.max_abs or 0.0)
        return (
            f"{case.name}: output {worst.output!r} differs by {worst.max_abs:.2g}, and rounding "
            f"alone changes this output of the Keras model by {errors[worst.output]:.2g}, compared "
            "with the model in float64"
        )


def rounding_errors(model: keras.Model, inputs: Arrays, expected: Arrays) -> dict[str, float]:
    """Measure the largest difference that rounding causes in each output of a model, by name.

    There are two measurements, and the larger difference counts. The first one compares the model's
    `expected` outputs with its copy in float64. The second one compares this float64 copy with
    itself after random perturbations of its weights, each by at most half a unit in the last place.

    An output is left out if an unchanged copy of the model differs too: the model is random, or its
    config does not describe it completely. The result is empty if the model does not run in
    float64.
    """
    half = half_unit(model_precision(model, expected))
    # The model was trained on another backend, such as JAX, which computed `expected`. Compute the
    # outputs on TensorFlow instead: a difference between two backends is not a rounding error.
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
    """Run a copy of a model, and return its outputs by the names of the model's outputs."""
    # The inputs and outputs of a copy may have other names, so match them by their order.
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
