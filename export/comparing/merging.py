"""Partial results of a check, merged: the same whatever the order."""

import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from keras_norm.export.comparing import compare
from keras_norm.export.results.artifact import Tally
from keras_norm.export.results.comparison import largest_known
from keras_norm.export.results.partial import (
    BatchStatistics,
    Measured,
    ModeDifference,
    Partial,
    PartialGap,
    Spread,
)
from keras_norm.export.results.plain import summed
from keras_norm.measured import pooled


def merge(parts: Iterable[Partial]) -> Partial:
    """What some parts of the data gave, as if they had been one.

    Merging is associative and commutative: counts add up, of the largest differences the larger
    one stays, and of equal ones the one at the earlier sample. What are sums of floats differs in
    the last digits of float64, and is reported in float32.

    Args:
        parts: of `keras_norm.export.Measure`, of the same model and artefacts.

    Raises:
        ValueError: they are of different rtol.
    """
    return functools.reduce(_merge, parts, Partial())


def _merge(one: Partial, other: Partial) -> Partial:
    return Partial(
        samples=one.samples + other.samples,
        timesteps=max(one.timesteps, other.timesteps),
        scales=_joined((*one.scales, *other.scales), lambda pair: pair[0], max),
        spreads=_joined(
            (*one.spreads, *other.spreads),
            lambda s: (s.output, s.total.shape),
            _spread,
        ),
        tallies=_tallies(one.tallies, other.tallies),
        artifacts=_joined((*one.artifacts, *other.artifacts), lambda m: m.name, _measured),
        gap=_gap(one.gap, other.gap),
    )


def _measured(one: Measured, other: Measured) -> Measured:
    outputs = (*one.outputs, *other.outputs)
    return Measured(
        one.name,
        _joined(outputs, lambda m: m.output, compare.merge),
        _tallies(one.tallies, other.tallies),
        _error(one.error, other.error),
    )


def _gap(one: PartialGap, other: PartialGap) -> PartialGap:
    return PartialGap(
        outputs=_joined((*one.outputs, *other.outputs), lambda d: (d.output, d.rows), _modes),
        layers=_joined((*one.layers, *other.layers), lambda s: s.place, _statistics),
        inference=_tallies(one.inference, other.inference),
        training=_tallies(one.training, other.training),
        error=_error(one.error, other.error),
    )


def _statistics(one: BatchStatistics, other: BatchStatistics) -> BatchStatistics:
    both = ((s.positions, s.mean, s.variance) for s in (one, other))
    return BatchStatistics(one.place, *pooled(*both))


def _modes(one: ModeDifference, other: ModeDifference) -> ModeDifference:
    return dataclasses.replace(
        one,
        worst=largest_known((one.worst, other.worst)) or 0.0,
        scale=max(one.scale, other.scale),
        **summed(one, other, "total", "count"),
    )


def _spread(one: Spread, other: Spread) -> Spread:
    return dataclasses.replace(one, **summed(one, other, "samples", "total", "squares"))


def _tallies(one: tuple[Tally, ...], other: tuple[Tally, ...]) -> tuple[Tally, ...]:
    return _joined((*one, *other), lambda t: (t.output, t.name), operator.add)


def _joined(
    items: Iterable[Any], key: Callable[[Any], Hashable], add: Callable[[Any, Any], Any]
) -> tuple[Any, ...]:
    """Those of one key made one, in the order of the first."""
    found: dict[Hashable, Any] = {}
    for item in items:
        name = key(item)
        found[name] = add(found[name], item) if name in found else item
    return tuple(found.values())


def _error(one: str | None, other: str | None) -> str | None:
    """Whichever comes first by its letters, so that the order of merging does not count."""
    return min((error for error in (one, other) if error is not None), default=None)
