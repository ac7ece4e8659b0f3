"""Common uses of the layers, and their time relative to Keras' layers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks import settings
from benchmarks.results import Results
from benchmarks.settings import COMPARED, INFERENCE, REFERENCES, TRAINING
from benchmarks.timing import geometric_mean


class UseCase(NamedTuple):
    """A call of a user, with the suite and mode that measure it (None: all modes)."""

    stage: str
    call: str
    suite: str
    mode: str | None


class RelativeTime(NamedTuple):
    """Time of a layer divided by that of the Keras layer: geometric mean and worst."""

    mean: float
    worst: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> "RelativeTime":
        """Create the relative time from the ratio of each measurement."""
        return cls(geometric_mean(ratios), max(ratios))

    def __str__(self) -> str:
        mean, worst = f"{self.mean:.2f}", f"{self.worst:.2f}"
        return mean if mean == worst else f"{mean} ({worst})"


def use_cases(results: Results) -> Iterator[UseCase]:
    """Yield the use cases that the results have."""
    first, cold, warm, eager = "first call", "cold start", "warm", "eager"
    cases = [
        UseCase(first, "training step", "first", settings.FIRST_STEP),
        UseCase(first, "Bidirectional x 2", "first", settings.BIDIRECTIONAL),
        UseCase(first, "Bidirectional x 2, CPU time", "first", settings.BIDIRECTIONAL_CPU),
        UseCase(first, "predict", "first", settings.FIRST_PREDICT),
        UseCase(cold, "whole fit", "cold", None),
        *(UseCase(cold, m.mode, "cold", m.mode) for m in results.of("cold")),
        UseCase(cold, "whole predict", "predict", None),
        UseCase(warm, "training step", "recurrent", TRAINING),
        UseCase(warm, "inference step, LSTM by XLA", "recurrent", INFERENCE),
        UseCase(warm, "predict", "served", settings.PREDICT),
        UseCase(warm, "SavedModel", "served", settings.SERVED),
        UseCase(eager, "training step", "eager", TRAINING),
        UseCase(eager, "inference step", "eager", INFERENCE),
    ]
    return (use for use in cases if results.of(use.suite, use.mode))


def relative_time(results: Results, use: UseCase, name: str) -> RelativeTime | None:
    """Compare a layer with its Keras layer; return None if the layer was not measured."""
    ratios = results.ratios(use.suite, use.mode, name, REFERENCES[COMPARED[name]])
    return RelativeTime.of(ratios) if ratios else None
