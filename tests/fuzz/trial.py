"""Export one random model to both formats, and check the files."""

import dataclasses
import pathlib
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_norm.export import Report, UnsupportedOpError, check, export_saved_model, export_tflite
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.model.expected_outputs import expected_for_check
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.rounding import PERTURBATIONS, half_unit, perturb
from keras_norm.export.results.check_result import Failure
from keras_norm.export.runtimes.runner import Arrays
from keras_norm.export.signature import input_specs
from tests.fuzz.models import RandomModel, random_model
from tests.fuzz.padding import reads_padding

PASSED, REFUSED, FAILED = "passed", "refused", "failed"

# The exporter of each format, and the name of its file.
FORMATS: dict[str, tuple[Callable[..., Any], str]] = {
    "SavedModel": (export_saved_model, "saved_model"),
    "TFLite": (export_tflite, "model.tflite"),
}

# Limit of the difference of a file from its model, in multiples of the rounding error.
LOSSES = 10.0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Result of one format: PASSED (with the tolerance), REFUSED or FAILED (with the reason)."""

    status: str
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Trial:
    """Results of one seed.

    Attributes:
        seed: the seed of the model.
        policy: the dtype policy of the model.
        layers: the classes of the layers, in one line.
        outcomes: the result of each format of FORMATS; "model" if the model could not be made, or
            failed the check itself.
        seconds: the duration.
    """

    seed: int
    policy: str
    layers: str
    outcomes: dict[str, Outcome]
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether the model or a format failed."""
        return any(outcome.status == FAILED for outcome in self.outcomes.values())

    @property
    def widened(self) -> bool:
        """Whether a format passed only with a larger tolerance than the default."""
        return any(o.status == PASSED and o.reason for o in self.outcomes.values())


def run_trial(seed: int) -> Trial:
    """Make a model, export it to both formats, and check the files."""
    started = time.monotonic()
    policy = layers = ""
    try:
        drawn = random_model(seed)
        policy, layers = drawn.policy, " ".join(type(x).__name__ for x in drawn.model.layers)
        outcomes = _outcomes(drawn)
    # Any exception while a model is made or checked is a finding.
    except Exception as error:
        outcomes = {"model": Outcome(FAILED, _described(error))}
    return Trial(seed, policy, layers, outcomes, time.monotonic() - started)


def _outcomes(drawn: RandomModel) -> dict[str, Outcome]:
    outcomes, files = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, (export, name) in FORMATS.items():
            try:
                files[kind] = export(drawn.model, pathlib.Path(folder, name))
            # `_is_documented` distinguishes a refusal from a crash.
            except Exception as error:
                status = REFUSED if _is_documented(error) else FAILED
                outcomes[kind] = Outcome(status, _described(error))
        if not files:
            return outcomes
        report, note = _checked(drawn, list(files.values()))
    outcomes |= {kind: Outcome(PASSED, note) for kind in files}
    for failure in _findings(report, drawn.model):
        kinds = [kind for kind, file in files.items() if failure.subject.startswith(file.name)]
        reason = f"{failure.subject}: {failure.check}: {failure.detail}"
        outcomes[kinds[0] if kinds else "model"] = Outcome(FAILED, reason)
    return outcomes


def _checked(drawn: RandomModel, files: list[pathlib.Path]) -> tuple[Report, str]:
    """Return the report of the check, and the tolerance if it is not the default.

    A recurrence can magnify rounding errors beyond the default tolerance. Then every file differs
    from the model as much, and the tolerance follows `rounding_error`.
    """
    report = check(drawn.model, files, drawn.data)
    if not _findings(report, drawn.model):
        return report, ""
    atol = LOSSES * rounding_error(drawn)
    return check(drawn.model, files, drawn.data, atol=atol), f"atol {atol:.2g} for rounding"


def rounding_error(drawn: RandomModel) -> float:
    """Return the largest difference that rounding causes in a model's outputs.

    It is measured on the test inputs of a check, against the model in float64. The float64 model
    also runs with each weight perturbed by at most half a unit in the last place of the model's
    dtype: one way of rounding can be near the exact output by luck.
    """
    samples = read_samples(input_specs(drawn.model), drawn.data)
    cases = expected_for_check(drawn.model, samples, None, None, KerasRunner(drawn.model)).cases
    exact_model = random_model(drawn.seed, policy="float64").model
    exact = KerasRunner(exact_model)
    wanted = [exact(case.inputs) for case in cases]
    others: list[Sequence[Arrays]] = [[case.outputs for case in cases]]
    weights, rng = exact_model.get_weights(), np.random.default_rng(drawn.seed)
    half = half_unit(drawn.model.compute_dtype)
    for _ in range(PERTURBATIONS):
        exact_model.set_weights([perturb(weight, half, rng) for weight in weights])
        others.append([exact(case.inputs) for case in cases])
    return max(
        float(np.abs(outputs[name] - value).max())
        for calls in others
        for outputs, values in zip(calls, wanted, strict=True)
        for name, value in values.items()
    )


def _findings(report: Report, model: keras.Model) -> list[Failure]:
    """Return the failures; leave out padding for a model with a layer that reads padding."""
    reads = reads_padding(model)
    own = report.keras.name
    return [
        f
        for f in report.failures
        if not (reads and f.subject == own and f.check == "right padding")
    ]


def _is_documented(error: Exception) -> bool:
    """Return whether an export was refused for an unsupported operation."""
    return isinstance(error, UnsupportedOpError)


def _described(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__} at {pathlib.Path(place.filename).name}:{place.lineno}: {text}"
