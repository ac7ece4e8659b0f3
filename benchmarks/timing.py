"""Time variants in turn, so that whatever slows the machine slows all of them."""

import dataclasses
import gc
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

Key = TypeVar("Key", bound=Hashable)
Group = TypeVar("Group", bound=Hashable)

WINDOW = 3  # calls, of which the best is compared with the best of as many before
PATIENCE = 26  # calls, if the time still falls
ATTEMPTS = 3
MORE, ENOUGH = 5, 2.0  # times as many rounds, seconds


@dataclasses.dataclass(frozen=True)
class Variant:
    """Something to time.

    Attributes:
        run: does the work once, and returns when it is done.
    """

    run: Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Timings(Generic[Key]):
    """Seconds of every variant.

    Attributes:
        rounds: one time a round.
        first: of the first call, which traces and may compile.
        compiled: whether a program was compiled in the timed rounds.
    """

    rounds: dict[Key, list[float]]
    first: dict[Key, float]
    compiled: bool


@dataclasses.dataclass(frozen=True)
class Spread:
    """A median between its quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float] | np.ndarray) -> "Spread":
        """The quartiles of values."""
        low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
        return cls(float(median), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.median:.2f} ±{(self.high - self.low) / 2:.2f}"


def measure(variants: Mapping[Key, Variant], rounds: int) -> Timings[Key]:
    """Warm every variant, then time all of them in turn.

    Rounds in which a program was compiled are thrown away and run again, `ATTEMPTS` times in all.

    Args:
        variants: what to time, by name.
        rounds: how often each is timed, at least: short ones are timed up to `MORE` times as
            often, until that takes `ENOUGH` seconds.
    """
    first = {name: warm(variant) for name, variant in variants.items()}
    one = sum(times[0] for times in run_rounds(variants, 1).values())
    rounds = max(rounds, min(MORE * rounds, int(ENOUGH / one)))
    for _ in range(ATTEMPTS):
        before = machine_code()
        seconds = run_rounds(variants, rounds)
        compiled = machine_code() > before
        if not compiled:
            break
    return Timings(seconds, first, compiled)


def of_group(timings: Timings[tuple[Group, str]], group: Group) -> Timings[str]:
    """The timings of the variants (group, name), by name."""
    names = {key: key[1] for key in timings.rounds if key[0] == group}
    return Timings(
        {name: timings.rounds[key] for key, name in names.items()},
        {name: timings.first[key] for key, name in names.items()},
        timings.compiled,
    )


def warm(variant: Variant) -> float:
    """Call a variant until nothing compiles and its time falls no more; the first call's seconds.

    Its time still falls while the best of the last calls beats the best of those before by 5%.
    """
    times: list[float] = []
    while len(times) < PATIENCE:
        before = machine_code()
        times.append(_seconds(variant.run))
        if len(times) < 2 * WINDOW or machine_code() > before:
            continue
        if min(times[-WINDOW:]) > 0.95 * min(times[-2 * WINDOW : -WINDOW]):
            break
    return times[0]


def run_rounds(variants: Mapping[Key, Variant], rounds: int) -> dict[Key, list[float]]:
    """Seconds of every variant in every round."""
    seconds: dict[Key, list[float]] = {name: [] for name in variants}
    gc.collect()
    gc.disable()
    try:
        for name in in_turn(list(variants), rounds):
            seconds[name].append(_seconds(variants[name].run))
    finally:
        gc.enable()
    return seconds


def in_turn(names: list[Key], rounds: int) -> Iterator[Key]:
    """Every name once a round; each round starts at another."""
    for start in range(rounds):
        start %= len(names)
        yield from names[start:] + names[:start]


def ratio(times: Sequence[float], reference: Sequence[float]) -> Spread:
    """The spread of each round's time over the reference's time in the same round."""
    return Spread.of(np.divide(times, reference))


def geometric_mean(values: Sequence[float]) -> float:
    """exp(mean(log(values)))."""
    return float(np.exp(np.mean(np.log(values))))


def growth_exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """P of the least-squares fit of time = a size^p, on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def linear_fit(sizes: Sequence[float], times: Sequence[float]) -> tuple[float, float]:
    """A and b of the least-squares fit of time = a + b size."""
    b, a = np.polyfit(sizes, times, 1)
    return float(a), float(b)


def machine_code() -> int:
    """Bytes of machine code that this process has made: it grows whenever XLA compiles.

    Such code lies in executable pages that come from no file. Where the system does not list them
    (it does on Linux), 0.
    """
    try:
        with open("/proc/self/maps") as pages:
            fields = [line.split() for line in pages]
    except OSError:
        return 0
    made = [f[0].split("-") for f in fields if "x" in f[1] and not f[5:]]
    return sum(int(end, 16) - int(start, 16) for start, end in made)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
