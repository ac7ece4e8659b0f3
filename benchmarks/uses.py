"""What a user does, and how long each layer takes for it beside Keras' own."""

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import settings
from benchmarks.results import Results
from benchmarks.settings import BESIDE, INFERENCE, REFERENCES, TRAINING
from benchmarks.timing import geometric_mean


class Use(NamedTuple):
    """Something a user does, and the suite and mode that measure it (None: all its modes)."""

    when: str
    what: str
    suite: str
    mode: str | None


class Share(NamedTuple):
    """A layer's time over that of Keras' layer, over all that was measured."""

    mean: float
    worst: float

    def __str__(self) -> str:
        mean, worst = f"{self.mean:.2f}", f"{self.worst:.2f}"
        return mean if mean == worst else f"{mean} ({worst})"


def uses(results: Results) -> Iterator[Use]:
    """Those that were measured."""
    first, cold, warm, eager = "first call", "cold start", "warm", "eager"
    found = [
        Use(first, "training step", "first", settings.FIRST_STEP),
        Use(first, "Bidirectional x 2", "first", settings.BIDIRECTIONAL),
        Use(first, "the same, CPU", "first", settings.BIDIRECTIONAL_CPU),
        Use(first, "predict", "first", settings.FIRST_PREDICT),
        Use(cold, "whole fit", "cold", None),
        *(Use(cold, m.mode, "cold", m.mode) for m in results.of("cold")),
        Use(cold, "whole predict", "predict", None),
        Use(warm, "training step", "recurrent", TRAINING),
        Use(warm, "inference step, LSTM by XLA", "recurrent", INFERENCE),
        Use(warm, "predict", "served", settings.PREDICT),
        Use(warm, "SavedModel", "served", settings.SERVED),
        Use(eager, "training step", "eager", TRAINING),
        Use(eager, "inference step", "eager", INFERENCE),
    ]
    return (use for use in found if results.of(use.suite, use.mode))


def share(results: Results, use: Use, name: str) -> Share | None:
    """The geometric mean and the worst; None where the layer was not measured."""
    ratios = results.ratios(use.suite, use.mode, name, REFERENCES[BESIDE[name]])
    return Share(geometric_mean(ratios), max(ratios)) if ratios else None
