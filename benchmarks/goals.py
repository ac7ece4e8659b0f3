"""The figures that were to be reached, beside those that were measured."""

import dataclasses
from collections.abc import Iterator

from benchmarks import settings
from benchmarks.results import Results
from benchmarks.settings import INFERENCE, LN_LSTM, LSTM, REFERENCES, TRAINING
from benchmarks.timing import geometric_mean, growth_exponent

REACHED, UNREACHED = "reached", "not reached"


@dataclasses.dataclass(frozen=True)
class Goal:
    """A figure and its upper bound."""

    what: str
    measured: float
    at_most: float

    @property
    def reached(self) -> bool:
        """Whether the figure, as it is printed, is within its bound."""
        return round(self.measured, 2) <= self.at_most


def goals(results: Results) -> Iterator[Goal]:
    """The goals of the suites that were run."""
    for mode, targets in settings.TARGETS.items():
        for reference, at_most in targets.items():
            ratios = shares(results, mode, LN_LSTM, REFERENCES[reference])
            if not ratios:
                continue
            mean = geometric_mean(list(ratios.values()))
            yield Goal(f"LN-LSTM / {reference}, {mode}", mean, at_most)
            if (mode, reference) == (TRAINING, LSTM):
                shape, worst = max(ratios.items(), key=lambda item: item[1])
                what = f"LN-LSTM / {reference}, {mode}, worst: {shape}"
                yield Goal(what, worst, settings.TARGET_ANY_SHAPE)
    for mode in (TRAINING, INFERENCE):
        for sibling in (settings.BN_LSTM, settings.LN_GRU):
            ratios = shares(results, mode, sibling, (LN_LSTM,))
            if ratios:
                mean = geometric_mean(list(ratios.values()))
                yield Goal(f"{sibling} / LN-LSTM, {mode}", mean, settings.TARGET_SIBLINGS)
    for mode in (TRAINING, INFERENCE):
        measured = results.of("growth", mode)
        if measured:
            exponent = growth_exponent(
                [m.shape[1] for m in measured], [m.median(LN_LSTM) for m in measured]
            )
            yield Goal(f"LN-LSTM, p in time ~ T^p, {mode}", exponent, settings.TARGET_EXPONENT)
    for mode in (TRAINING, INFERENCE):
        for name, peer in settings.PEERS.items():
            found = [m.ratio(name, (f"keras {peer}",)) for m in results.of("layers", mode)]
            medians = [ratio.median for ratio in found if ratio is not None]
            if medians:
                what = f"{name} / Keras, {mode}"
                yield Goal(what, max(medians), settings.TARGET_LAYERS)


def shares(
    results: Results, mode: str, name: str, reference: tuple[str, ...]
) -> dict[tuple[int, ...], float]:
    """A variant's time over a reference's, on each of the training shapes."""
    training_shapes = {m.shape for m in results.of("recurrent", TRAINING)}
    ratios = {
        m.shape: m.ratio(name, reference)
        for m in results.of("recurrent", mode)
        if m.shape in training_shapes
    }
    return {shape: ratio.median for shape, ratio in ratios.items() if ratio is not None}


def lstm_means(results: Results, mode: str) -> dict[str, float]:
    """Geometric means of each variant's share of the LSTM's time, where all shapes have it."""
    measured = results.of("recurrent", mode)
    names = [name for name in measured[0].values if name not in settings.FLOORS] if measured else []
    found = {name: shares(results, mode, name, REFERENCES[LSTM]) for name in names}
    complete = max((len(ratios) for ratios in found.values()), default=0)
    return {
        name: geometric_mean(list(ratios.values()))
        for name, ratios in found.items()
        if len(ratios) == complete
    }
