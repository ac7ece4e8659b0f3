import numpy as np
import pytest

from keras_norm.export.comparing.cases import Case
from keras_norm.export.comparing.eight_bits import USEFUL, Useful, judge, useful
from keras_norm.export.results import OutputResult

VARIES = {"y": np.array([[0.0], [2.0], [4.0], [2.0]])}  # by sqrt(2) about 2


@pytest.fixture
def rule():
    return useful(VARIES)


def test_a_quarter_of_what_an_output_varies_by_is_allowed(rule):
    assert rule.limits["y"] == pytest.approx(USEFUL * np.sqrt(2))


@pytest.mark.parametrize(("error", "passed"), [(0.35, True), (0.36, False)])
def test_the_root_mean_square_of_the_error_judges(rule, error, passed):
    (result,) = rule.compare(VARIES, {"y": VARIES["y"] + error * np.array([[1], [-1], [1], [-1]])})
    assert bool(result) == passed
    assert result.rms == pytest.approx(error)
    assert result.used == pytest.approx(error / (USEFUL * np.sqrt(2)))


def test_one_value_may_be_far_off(rule):
    (result,) = rule.compare(VARIES, {"y": VARIES["y"] + [[0.7], [0], [0], [0]]})
    assert result
    assert result.max_abs == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("actual", "problem"),
    [([[np.nan], [2], [4], [2]], "NaN in 1 of 4 values"), ([[0.0]], "wrong shape")],
)
def test_values_have_to_be_there_and_numbers(rule, actual, problem):
    (result,) = rule.compare(VARIES, {"y": np.array(actual, float)})
    assert not result
    assert problem in result.problem


def test_integers_may_turn():
    ids = {"y": np.array([1, 2])}
    (result,) = useful(ids).compare(ids, {"y": np.array([2, 1])})
    assert result


def test_an_output_that_never_varies_has_to_be_exact():
    constant = {"y": np.ones((3, 1))}
    (equal,), (off,) = (
        useful(constant).compare(constant, {"y": y})
        for y in (np.ones((3, 1)), np.full((3, 1), 1.1))
    )
    assert equal
    assert not off
    assert off.used == np.inf


def judged(errors, lengths=(4, 4)):
    """Verdicts of two cases, of samples 0, and 0 to 3, each with its error."""
    cases = [Case("batch 1", (0,), lengths[0], {}), Case("batch 4", (0, 1, 2, 3), lengths[1], {})]
    expected = [{"y": VARIES["y"][:1]}, VARIES]
    answers = [{"y": e["y"] + error} for e, error in zip(expected, errors, strict=True)]
    rule = useful(VARIES)
    comparisons = [rule.compare(e, a)[0] for e, a in zip(expected, answers, strict=True)]
    output = OutputResult("y", tuple(case.name for case in cases), tuple(comparisons), None)
    (output,) = judge([output], cases, expected, answers, rule)
    return [bool(comparison) for comparison in output.comparisons]


def test_all_samples_of_a_length_are_judged_together():
    off = np.array([[0.6], [0], [0], [0]])
    assert judged([off[:1], off]) == [True, True]


def test_lengths_are_judged_apart():
    assert judged([0.6, 0.0], lengths=(2, 4)) == [False, True]


def test_an_output_without_a_limit_is_only_to_be_finite():
    (result,) = Useful({}).compare(VARIES, {"y": VARIES["y"] + 100})
    assert result
