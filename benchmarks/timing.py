"""Time variants in turn, so that a slow phase of the machine affects all variants."""

import dataclasses
import gc
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

Key = TypeVar("Key", bound=Hashable)
Group = TypeVar("Group", bound=Hashable)

WINDOW = 3  # calls; their best time is compared with the best of the WINDOW calls before
MAX_WARM_UP = 26  # calls
ATTEMPTS = 3
MAX_FACTOR, MIN_SECONDS = 5, 2.0  # short variants get more rounds


@dataclasses.dataclass(frozen=True)
class Variant:
    """A function to time.

    Attributes:
        run: function that does the work once, and returns when it is done.
    """

    run: Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Timings(Generic[Key]):
    """Times of every variant, in seconds.

    Attributes:
        rounds: one time per round.
        first: time of the first call, which traces and may compile.
        compiled: whether XLA compiled in the timed rounds.
    """

    rounds: dict[Key, list[float]]
    first: dict[Key, float]
    compiled: bool


@dataclasses.dataclass(frozen=True)
class Spread:
    """Median and quartiles of values."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float] | np.ndarray) -> "Spread":
        """Compute the quartiles of values."""
        low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
        return cls(float(median), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.median:.2f} ±{(self.high - self.low) / 2:.2f}"


def measure(variants: Mapping[Key, Variant], rounds: int) -> Timings[Key]:
    """Warm up every variant, then time all variants in turn.

    If XLA compiles in the rounds, they are discarded and run again, up to `ATTEMPTS` times in all.

    Args:
        variants: functions to time, by name.
        rounds: minimum number of rounds. Short variants get up to `MAX_FACTOR` times as many, until
            the rounds take `MIN_SECONDS`.
    """
    first = {name: warm(variant) for name, variant in variants.items()}
    one = sum(times[0] for times in run_rounds(variants, 1).values())
    rounds = max(rounds, min(MAX_FACTOR * rounds, int(MIN_SECONDS / one)))
    for _ in range(ATTEMPTS):
        before = machine_code()
        seconds = run_rounds(variants, rounds)
        compiled = machine_code() > before
        if not compiled:
            break
    return Timings(seconds, first, compiled)


def of_group(timings: Timings[tuple[Group, str]], group: Group) -> Timings[str]:
    """Select the timings of the variants (group, name) of one group, by name."""
    names = {key: key[1] for key in timings.rounds if key[0] == group}
    return Timings(
        {name: timings.rounds[key] for key, name in names.items()},
        {name: timings.first[key] for key, name in names.items()},
        timings.compiled,
    )


def warm(variant: Variant) -> float:
    """Call a variant until nothing compiles and its time is stable; return the first call's time.

    The time is stable if the last `WINDOW` calls are not 5 % faster than the `WINDOW` calls before.
    """
    times: list[float] = []
    while len(times) < MAX_WARM_UP:
        before = machine_code()
        times.append(_seconds(variant.run))
        if len(times) < 2 * WINDOW or machine_code() > before:
            continue
        if min(times[-WINDOW:]) > 0.95 * min(times[-2 * WINDOW : -WINDOW]):
            break
    return times[0]


def run_rounds(variants: Mapping[Key, Variant], rounds: int) -> dict[Key, list[float]]:
    """Time every variant in every round, in seconds."""
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
    """Yield every name once per round; each round starts with another name."""
    for start in range(rounds):
        start %= len(names)
        yield from names[start:] + names[:start]


def ratio(times: Sequence[float], reference: Sequence[float]) -> Spread:
    """Return the spread of the ratios of time to reference time, round by round."""
    return Spread.of(np.divide(times, reference))


def geometric_mean(values: Sequence[float]) -> float:
    """Return exp(mean(log(values)))."""
    return float(np.exp(np.mean(np.log(values))))


def growth_exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Fit time = a size^p by least squares on logarithms, and return p."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def linear_fit(sizes: Sequence[float], times: Sequence[float]) -> tuple[float, float]:
    """Fit time = a + b size by least squares, and return (a, b)."""
    b, a = np.polyfit(sizes, times, 1)
    return float(a), float(b)


def machine_code() -> int:
    """Return the bytes of machine code that this process has generated; a compilation adds some.

    Generated code is in executable pages without a file. Returns 0 on systems without /proc.
    """
    try:
        with open("/proc/self/maps") as pages:
            fields = [line.split() for line in pages]
    except OSError:
        return 0
    generated = [f[0].split("-") for f in fields if "x" in f[1] and not f[5:]]
    return sum(int(end, 16) - int(start, 16) for start, end in generated)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
