"""One random model, exported to both formats and checked."""

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
from keras_norm.export.checks.plan import make_plan
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.rounding import PERTURBATIONS, half_unit, perturb
from keras_norm.export.results.check_result import Failure
from keras_norm.export.runtimes.runner import Arrays
from keras_norm.export.signature import input_specs
from tests.fuzz.models import RandomModel, random_model
from tests.fuzz.padding import reads_padding

PASSED, REFUSED, FAILED = "passed", "refused", "failed"

# How each format is exported, and the name of its file.
FORMATS: dict[str, tuple[Callable[..., Any], str]] = {
    "SavedModel": (export_saved_model, "saved_model"),
    "TFLite": (export_tflite, "model.tflite"),
}

# How many times as far from the model an export may be as rounding alone takes its outputs.
LOSSES = 10.0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of one format: PASSED (with which tolerance), REFUSED or FAILED, and why."""

    status: str
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Trial:
    """What came of one seed.

    Attributes:
        seed: of the model.
        policy: its dtype policy.
        layers: its layers, in one line.
        outcomes: by format, those of FORMATS; and "model", where it could not be made, or
            fails the check by itself.
        seconds: how long it took.
    """

    seed: int
    policy: str
    layers: str
    outcomes: dict[str, Outcome]
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether anything went wrong."""
        return any(outcome.status == FAILED for outcome in self.outcomes.values())

    @property
    def widened(self) -> bool:
        """Whether it passed with another tolerance than the default."""
        return any(o.status == PASSED and o.reason for o in self.outcomes.values())


def run_trial(seed: int) -> Trial:
    """Make a model, export it to both formats, and check the files."""
    started = time.monotonic()
    policy = layers = ""
    try:
        drawn = random_model(seed)
        policy, layers = drawn.policy, " ".join(type(x).__name__ for x in drawn.model.layers)
        outcomes = _outcomes(drawn)
    # Whatever is raised, where a model is made or checked, is a finding.
    except Exception as error:
        outcomes = {"model": Outcome(FAILED, _described(error))}
    return Trial(seed, policy, layers, outcomes, time.monotonic() - started)


def _outcomes(drawn: RandomModel) -> dict[str, Outcome]:
    outcomes, files = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, (export, name) in FORMATS.items():
            try:
                files[kind] = export(drawn.model, pathlib.Path(folder, name))
            # Refused or crashed: `_is_documented` tells.
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
    """The check's report, and the tolerance where that is not the default.

    A recurrence can magnify rounding beyond the default tolerance. No export is then nearer to the
    model than rounding lets it be.
    """
    report = check(drawn.model, files, drawn.data)
    if not _findings(report, drawn.model):
        return report, ""
    atol = LOSSES * lost_by_rounding(drawn)
    return check(drawn.model, files, drawn.data, atol=atol), f"atol {atol:.2g} for rounding"


def lost_by_rounding(drawn: RandomModel) -> float:
    """How far rounding takes a model's outputs, at most, in the cases that a check runs.

    The model against the same in float64, and that one against itself with every weight perturb by
    at most half a unit in its last place: one way of rounding can be near the exact answer by luck.
    """
    plan = make_plan(drawn.model, read_samples(input_specs(drawn.model), drawn.data))
    twin = random_model(drawn.seed, policy="float64").model
    exact = KerasRunner(twin)
    wanted = [exact(case.inputs) for case in plan.cases]
    others: list[Sequence[Arrays]] = [plan.expected]
    weights, rng = twin.get_weights(), np.random.default_rng(drawn.seed)
    half = half_unit(drawn.model.compute_dtype)
    for _ in range(PERTURBATIONS):
        twin.set_weights([perturb(weight, half, rng) for weight in weights])
        others.append([exact(case.inputs) for case in plan.cases])
    return max(
        float(np.abs(answer[name] - value).max())
        for answers in others
        for answer, values in zip(answers, wanted, strict=True)
        for name, value in values.items()
    )


def _findings(report: Report, model: keras.Model) -> list[Failure]:
    """The failures, but for padding that the Keras model is known to read: a convolution does."""
    reads = reads_padding(model)
    own = report.keras.name
    return [
        f
        for f in report.failures
        if not (reads and f.subject == own and f.check == "right padding")
    ]


def _is_documented(error: Exception) -> bool:
    """Whether an export was refused for an unsupported operation, as docs/export.md describes."""
    return isinstance(error, UnsupportedOpError)


def _described(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__} at {pathlib.Path(place.filename).name}:{place.lineno}: {text}"
