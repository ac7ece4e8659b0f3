"""An interval above the threshold means yes, below it no; else more runs would decide."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from experiments.harness import sample_scores, verdicts
from experiments.harness.results_file import ResultsFile
from experiments.harness.study import Run
from tests.experiments import toy_study

SEEDS = 5
SIZE = dataclasses.replace(toy_study.SIZE, seeds=SEEDS, rates=(1e-3,))


def with_work(**options):
    """Return the study with other options of its work."""
    work = dataclasses.replace(toy_study.STUDY.work, **options)
    return dataclasses.replace(toy_study.STUDY, work=work)


def decide(tmp_path, none, bn, question=toy_study.QUESTION, study=toy_study.STUDY, ended=""):
    """Decide a question from the errors of the runs of both models."""
    results = ResultsFile(tmp_path / "made.json", study, SIZE)
    for model, errors in (("none", none), ("BN", bn)):
        for seed, error in enumerate(errors):
            run = Run(toy_study.STUDY.arm("line", model), 1e-3, seed)
            results.add(run, toy_study.entry(error) | ({"ended": ended} if ended else {}))
    return verdicts.decide(study, SIZE, results, question)


NOISE = np.array([3.0, -8.0, 5.0, 9.0, -4.0])  # noise of each seed, equal for both models


@pytest.mark.parametrize(("shift", "holds"), [(1.0, True), (-1.0, False)])
def test_effects_are_paired_by_seed(tmp_path, shift, holds):
    own = np.array([0.1, -0.2, 0.0, 0.2, -0.1])
    verdict = decide(tmp_path, 20 + NOISE + shift + own, 20 + NOISE)
    assert verdict.holds is holds
    low, high = scipy.stats.t.interval(0.95, SEEDS - 1, shift, scipy.stats.sem(own))
    assert (verdict.mean - verdict.half, verdict.mean + verdict.half) == pytest.approx((low, high))


def test_an_open_question_says_how_many_seeds_would_decide(tmp_path):
    verdict = decide(tmp_path, 20 + NOISE, [19.0] * SEEDS)
    assert verdict.detailed_answer == "not decided"
    needed = int(verdict.missing.split()[1])
    deviation = np.std(NOISE, ddof=1)
    half = scipy.stats.t.ppf(0.975, needed - 1) * deviation / np.sqrt(needed)
    assert half < 2.0 < half * 1.2
    assert verdict.missing == f"about {needed} seeds would decide"


def test_missing_seeds_leave_a_question_open(tmp_path):
    verdict = decide(tmp_path, [3.0, 3.1], [1.0] * SEEDS)
    assert verdict.holds is None
    assert verdict.missing == "3 of 5 seeds are missing and would decide"


@pytest.mark.parametrize(("limit", "holds"), [("rounds", None), ("hour", True)])
def test_final_scores_of_runs_stopped_by_the_limit_on_rounds_decide_nothing(tmp_path, limit, holds):
    errors = [2.0] * SEEDS, [1.0] * SEEDS
    verdict = decide(tmp_path / "error", *errors, ended=limit)
    assert verdict.holds is holds
    assert verdict.missing == ("" if holds else "10 longer runs would decide")
    speed = dataclasses.replace(toy_study.QUESTION, score="epochs", threshold=-0.1)
    reached = with_work(level=2.0)  # in the first round
    assert decide(tmp_path / "speed", *errors, speed, reached, limit).holds


def test_a_run_that_never_reached_the_level_decides_nothing(tmp_path):
    speed = dataclasses.replace(toy_study.QUESTION, score="epochs")
    errors = [1.9, 1.9, 1.0, 1.0, 1.0], [1.0] * SEEDS
    verdict = decide(tmp_path, *errors, speed, with_work(level=1.5))
    assert (verdict.detailed_answer, verdict.effect) == ("not decided", "")
    assert verdict.missing == (
        "none reached the level in 3 of 5 runs, BN reached the level in 5 of 5 runs: other "
        "learning rates or longer runs would decide"
    )


def test_runs_that_have_not_learned_decide_nothing(tmp_path):
    verdict = decide(tmp_path, [1.9] * SEEDS, [1.0] * SEEDS, study=with_work(learned=1.5))
    assert verdict.detailed_answer == "not decided"
    assert verdict.missing.startswith("none learned in 0 of 5 runs, BN learned in 5 of 5 runs:")


def test_nan_decides_nothing(tmp_path):
    verdict = decide(tmp_path, [2.0, np.nan, 2.0, 2.0, 2.0], [1.0] * SEEDS)
    assert verdict.holds is None
    assert verdict.missing.startswith("none learned in 4 of 5 runs, BN learned in 5 of 5 runs:")


@pytest.mark.parametrize(
    ("shift", "word"),
    [
        (1.0, "no, smaller"),
        (0.0, "no"),
        (-1.0, "no"),
        (-3.0, "no, the opposite"),
    ],
)
def test_a_no_says_if_the_effect_is_smaller_or_the_opposite(tmp_path, shift, word):
    question = dataclasses.replace(toy_study.QUESTION, threshold=2.0)
    own = np.array([0.1, -0.2, 0.0, 0.2, -0.1])
    assert decide(tmp_path, 20 + NOISE + shift + own, 20 + NOISE, question).detailed_answer == word


def decide_of_one_seed(tmp_path, none, bn):
    """Decide from one run of each model, with these errors of its test samples."""
    size = dataclasses.replace(SIZE, seeds=1)
    results = ResultsFile(tmp_path / "made.json", toy_study.STUDY, size)
    for model, errors in (("none", none), ("BN", bn)):
        sampled = {"samples": {"error": sample_scores.pack(errors)}}
        run = Run(toy_study.STUDY.arm("line", model), 1e-3, 0)
        results.add(run, toy_study.entry(float(np.mean(errors))) | sampled)
    return verdicts.decide(toy_study.STUDY, size, results, toy_study.QUESTION)


SAMPLES = np.random.default_rng(0).normal(size=(2, 400))


def test_with_one_seed_the_interval_comes_from_paired_test_samples(tmp_path):
    hard, own = 50 * SAMPLES[0], SAMPLES[1]
    verdict = decide_of_one_seed(tmp_path, hard + 1 + own, hard)
    assert verdict.detailed_answer == "yes"
    assert verdict.mean == pytest.approx(1 + own.mean(), abs=1e-5)
    assert verdict.half == pytest.approx(1.96 * own.std() / 20, rel=0.1)
    assert (verdict.seeds, verdict.samples) == (1, 400)


def test_with_one_seed_an_open_question_says_how_many_seeds_would_decide(tmp_path):
    own = SAMPLES[1] - SAMPLES[1].mean()
    verdict = decide_of_one_seed(tmp_path, own + 0.06, np.zeros(400))
    assert verdict.detailed_answer == "not decided"
    # Three test sets: 1.96 / sqrt(400 n) < 0.06.
    assert verdict.missing == "about 3 seeds would decide"


def test_a_question_about_the_largest_learning_rate_compares_its_runs(tmp_path):
    size = dataclasses.replace(SIZE, rates=(1e-3, 3e-2), seeds=2)
    results = ResultsFile(tmp_path / "made.json", toy_study.STUDY, size)
    for model, errors in (("none", (5.0, 7.0)), ("BN", (1.0, 2.0))):
        for seed in range(2):
            for rate, error in zip(size.rates, errors, strict=True):
                run = Run(toy_study.STUDY.arm("line", model), rate, seed)
                results.add(run, toy_study.entry(error))
    question = dataclasses.replace(toy_study.QUESTION, largest_rate=True)
    assert verdicts.effects(toy_study.STUDY, size, results, question).tolist() == [5.0, 5.0]
