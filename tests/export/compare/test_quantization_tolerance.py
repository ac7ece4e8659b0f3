"""The tolerance of 8-bit files: the error relative to the variation of an output."""

import numpy as np
import pytest

from keras_norm.export.compare.output_differences import measure
from keras_norm.export.compare.quantization_tolerance import (
    USEFUL,
    add_spreads,
    spreads,
    useful_tolerance,
)

VARIES = {"y": np.array([[0.0], [2.0], [4.0], [2.0]])}  # by sqrt(2) about 2


@pytest.fixture
def rule():
    return useful_tolerance(spreads(VARIES))


def in_parts(expected, actual, count):
    """Measurements of an output, in this number of parts."""
    parts = zip(np.split(expected, count), np.split(actual, count), strict=True)
    return [measure({"y": e}, {"y": a}, 0.0)[0] for e, a in parts]


def judged(rule, actual, expected=VARIES):
    (found,) = measure(expected, {"y": np.asarray(actual)}, 0.0)
    return rule.judge(found)


def test_a_quarter_of_the_variation_is_allowed(rule):
    assert rule.limits["y"] == pytest.approx(USEFUL * np.sqrt(2))


def test_the_variation_is_about_the_mean_of_each_element_over_all_parts():
    """Rows of different shapes have separate means."""
    rng = np.random.default_rng(0)
    short, long = rng.normal(3.0, 2.0, (40, 3)), rng.normal(-9.0, 1.0, (30, 5, 2))
    parts = [*np.split(short, [7, 19]), *np.split(long, [11])]
    found = [spread for part in parts for spread in spreads({"y": part})]
    about = [y - y.mean(axis=0) for y in (short, long)]
    rms = np.sqrt(np.mean(np.square(np.concatenate([y.ravel() for y in about]))))
    assert useful_tolerance(add_spreads(found)).limits["y"] == pytest.approx(USEFUL * rms)
    assert useful_tolerance(found).limits["y"] < USEFUL * rms  # separate means


@pytest.mark.parametrize(("error", "passed"), [(0.35, True), (0.36, False)])
def test_the_root_mean_square_of_the_error_decides(rule, error, passed):
    result = judged(rule, VARIES["y"] + error * np.array([[1], [-1], [1], [-1]]))
    assert bool(result) == passed
    assert result.rms == pytest.approx(error)
    assert result.used == pytest.approx(error / (USEFUL * np.sqrt(2)))


def test_one_value_may_have_a_large_error(rule):
    result = judged(rule, VARIES["y"] + [[0.7], [0], [0], [0]])
    assert result
    assert result.max_abs == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("actual", "problem"),
    [([[np.nan], [2], [4], [2]], "NaN in 1 of 4 actual values"), ([[0.0]], "wrong shape")],
)
def test_missing_and_nan_values_fail(rule, actual, problem):
    result = judged(rule, np.array(actual, float))
    assert not result
    assert problem in result.problem


@pytest.mark.parametrize(("others", "right"), [(10, True), (11, False)])
def test_a_quarter_of_the_integers_may_differ(others, right):
    ids = {"y": np.arange(40)}
    turned = np.concatenate([ids["y"][:others] + 1, ids["y"][others:]])
    assert bool(judged(useful_tolerance(spreads(ids)), turned, ids)) == right


def test_a_constant_output_must_be_exact():
    constant = {"y": np.ones((3, 1))}
    rule = useful_tolerance(spreads(constant))
    assert judged(rule, np.ones((3, 1)), constant)
    off = judged(rule, np.full((3, 1), 1.1), constant)
    assert not off
    assert off.used == np.inf


def test_measurements_judged_together_have_one_verdict(rule):
    off = np.array([[0.6], [0], [0], [0]])
    parts = [
        measure({"y": VARIES["y"][rows]}, {"y": (VARIES["y"] + off)[rows]}, 0.0)[0]
        for rows in (slice(0, 1), slice(0, 4))
    ]
    assert [bool(rule.judge(part)) for part in parts] == [False, True]
    together = rule.judge_together(parts)
    assert [bool(result) for result in together] == [False, False]
    assert [result.max_abs for result in together] == pytest.approx([0.6, 0.6])
    assert together[0].rms == pytest.approx(np.sqrt(2 * 0.36 / 5))


def test_an_output_without_a_limit_must_be_finite_only():
    assert judged(useful_tolerance([]), VARIES["y"] + 100)


def test_samples_with_a_unique_shape_do_not_reduce_the_variation():
    rng = np.random.default_rng(0)
    alike, alone = rng.normal(size=(2, 5, 2)), [rng.normal(size=(1, k, 2)) for k in range(6, 12)]
    parts = [*spreads({"y": alike}), *(s for y in alone for s in spreads({"y": y}))]
    assert useful_tolerance(parts).limits == useful_tolerance(spreads({"y": alike})).limits


def test_the_variation_is_over_all_values_if_no_two_samples_share_a_shape():
    rng = np.random.default_rng(0)
    alone = [rng.normal(3.0, 2.0, size=(1, k, 2)) for k in range(6, 12)]
    every = np.concatenate([y.ravel() for y in alone])
    limits = useful_tolerance(s for y in alone for s in spreads({"y": y})).limits
    assert limits["y"] == pytest.approx(USEFUL * every.std())


def test_integers_of_all_parts_are_judged_together():
    """A fifth of 40 integers differ, all in one part."""
    rule, expected = useful_tolerance([]), np.arange(40)
    found = in_parts(expected, np.where(expected < 8, -1, expected), 5)
    assert not rule.judge(found[0])
    assert all(rule.judge_together(found))


def test_the_verdict_does_not_depend_on_the_order_of_the_parts(rule):
    rng = np.random.default_rng(0)
    y = rng.normal(size=(90, 1))
    found = in_parts(y, y + rng.normal(size=(90, 1)), 10)
    results = {rule.judge_together(order)[0].rms for order in (found, found[::-1])}
    assert len(results) == 1
