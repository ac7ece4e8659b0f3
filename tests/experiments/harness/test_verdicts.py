"""The rule: all of the interval above is yes, all of it below is no, else what would decide."""

import dataclasses
import re

import numpy as np
import pytest
import scipy.stats

from experiments.harness import sample_scores, verdicts
from experiments.harness.results_file import ResultsFile
from experiments.harness.runs import every_run
from experiments.harness.study import Run
from tests.experiments import toy_study

SEEDS = 5
SIZE = dataclasses.replace(toy_study.SIZE, seeds=SEEDS, rates=(1e-3,))


def decide(tmp_path, none, bn, question=toy_study.QUESTION, study=toy_study.STUDY):
    results = ResultsFile(tmp_path / "made.json", study, SIZE)
    for model, errors in (("none", none), ("BN", bn)):
        for seed, error in enumerate(errors):
            run = Run(toy_study.STUDY.arm("line", model), 1e-3, seed)
            results.add(run, toy_study.entry(error))
    return verdicts.decide(study, SIZE, results, question)


NOISE = np.array([3.0, -8.0, 5.0, 9.0, -4.0])  # of a seed, the same for both


@pytest.mark.parametrize(("shift", "holds"), [(1.0, True), (-1.0, False)])
def test_differences_are_paired_by_seed(tmp_path, shift, holds):
    own = np.array([0.1, -0.2, 0.0, 0.2, -0.1])
    verdict = decide(tmp_path, 20 + NOISE + shift + own, 20 + NOISE)
    assert verdict.holds is holds
    low, high = scipy.stats.t.interval(0.95, SEEDS - 1, shift, scipy.stats.sem(own))
    assert (verdict.mean - verdict.half, verdict.mean + verdict.half) == pytest.approx((low, high))


def test_an_interval_that_holds_the_threshold_says_how_many_seeds_would_decide(tmp_path):
    verdict = decide(tmp_path, 20 + NOISE, [19.0] * SEEDS)
    assert verdict.word == "not decided"
    needed = int(verdict.missing.split()[1])
    deviation = np.std(NOISE, ddof=1)
    half = scipy.stats.t.ppf(0.975, needed - 1) * deviation / np.sqrt(needed)
    assert half < 2.0 < half * 1.2
    assert verdict.missing == f"some {needed} seeds would decide, at even odds"


def test_what_is_as_large_as_the_threshold_has_no_number_of_seeds(tmp_path):
    question = dataclasses.replace(toy_study.QUESTION, above=float(NOISE.mean()) + 1e-4)
    verdict = decide(tmp_path, 20 + NOISE, [20.0] * SEEDS, question)
    assert verdict.missing.startswith("more than 1,000 seeds would decide: ")


def test_a_threshold_is_what_it_is_held_against(tmp_path):
    asked = dataclasses.replace(toy_study.QUESTION, above=2.0, unit="points")
    verdict = decide(tmp_path, np.full(SEEDS, 1.5) + NOISE / 100, [0.0] * SEEDS, asked)
    assert verdict.holds is False
    assert verdict.figure == f"1.510 ± {verdict.half:.3f} points, against 2; 5 seeds"


@pytest.mark.parametrize("bound", verdicts.BOUNDS)
def test_runs_that_a_bound_cut_off_are_counted(tmp_path, bound):
    results = ResultsFile(tmp_path / "made.json", toy_study.STUDY, SIZE)
    for model, error in (("none", 2.0), ("BN", 1.0)):
        for seed in range(SEEDS):
            run = Run(toy_study.STUDY.arm("line", model), 1e-3, seed)
            ended = {"ended": bound} if model == "none" and seed < 3 else {}
            results.add(run, toy_study.entry(error) | ended)
    verdict = verdicts.decide(toy_study.STUDY, SIZE, results, toy_study.QUESTION)
    assert (verdict.runs, verdict.cut) == (2 * SEEDS, 3)
    assert verdict.figure.endswith("; 5 seeds, 3 of 10 runs cut off")


@pytest.mark.parametrize(("bound", "holds"), [("rounds", None), ("hour", True)])
def test_the_end_of_runs_that_the_bound_on_rounds_ended_decides_nothing(tmp_path, bound, holds):
    results = ResultsFile(tmp_path / "made.json", toy_study.STUDY, SIZE)
    for model, error in (("none", 2.0), ("BN", 1.0)):
        for seed in range(SEEDS):
            run = Run(toy_study.STUDY.arm("line", model), 1e-3, seed)
            results.add(run, toy_study.entry(error) | {"ended": bound})
    verdict = verdicts.decide(toy_study.STUDY, SIZE, results, toy_study.QUESTION)
    cut = {(a.task, a.model, 1e-3, seed) for a in toy_study.STUDY.arms for seed in range(SEEDS)}
    assert (verdict.holds, verdict.longer) == (holds, cut if holds is None else frozenset())
    speed = dataclasses.replace(toy_study.QUESTION, score="epochs", above=-0.1)
    work = dataclasses.replace(toy_study.STUDY.work, level=2.0)  # which both have at once
    assert verdicts.decide(
        dataclasses.replace(toy_study.STUDY, work=work), SIZE, results, speed
    ).holds


def test_the_end_of_such_runs_takes_seeds_too_where_the_interval_holds_the_bound(tmp_path):
    results = ResultsFile(tmp_path / "made.json", toy_study.STUDY, SIZE)
    for model, errors in (("none", [2.0, 1.5, 1.0, 0.5, 1.5]), ("BN", [1.0] * SEEDS)):
        for seed, error in enumerate(errors):
            run = Run(toy_study.STUDY.arm("line", model), 1e-3, seed)
            results.add(run, toy_study.entry(error) | {"ended": "rounds"})
    verdict = verdicts.decide(toy_study.STUDY, SIZE, results, toy_study.QUESTION)
    assert verdict.holds is None
    assert verdict.missing.startswith("10 longer runs would decide, in at most an hour of two")
    assert verdict.missing.endswith("seeds would decide, at even odds")
    assert "; as they are, some " in verdict.missing


@pytest.mark.parametrize(
    ("ended", "what"),
    [
        (("hour", "hour"), "2 longer runs would decide, in at most an hour of two cores each"),
        (
            ("hour", "validation"),
            "2 longer runs of more patience would decide, in at most an hour of two cores each",
        ),
    ],
)
def test_what_runs_that_have_not_learned_lack_follows_from_what_ended_them(tmp_path, ended, what):
    study = dataclasses.replace(
        toy_study.STUDY, work=dataclasses.replace(toy_study.STUDY.work, learned=1.5)
    )
    results = ResultsFile(tmp_path / "made.json", study, SIZE)
    for seed in range(SEEDS):
        behind = {"ended": ended[seed]} if seed < len(ended) else {}
        for model, error in (("none", 1.9 if behind else 1.0), ("BN", 1.0)):
            of_model = behind if model == "none" else {}
            results.add(
                Run(study.arm("line", model), 1e-3, seed), toy_study.entry(error) | of_model
            )
    verdict = verdicts.decide(study, SIZE, results, toy_study.QUESTION)
    assert verdict.missing.endswith(f": other learning rates, or {what}")


def test_a_level_that_a_run_never_reached_decides_nothing_and_says_whose(tmp_path):
    study = dataclasses.replace(
        toy_study.STUDY, work=dataclasses.replace(toy_study.STUDY.work, level=1.5)
    )
    asked = dataclasses.replace(toy_study.QUESTION, score="epochs")
    verdict = decide(tmp_path, [1.9, 1.9, 1.0, 1.0, 1.0], [1.0] * SEEDS, asked, study)
    assert (verdict.word, verdict.figure) == ("not decided", "")
    assert verdict.longer == {("line", "none", 1e-3, seed) for seed in (0, 1)}
    assert verdict.missing == (
        "none got there in 3 of 5 runs, BN got there in 5 of 5 runs: other learning rates, or "
        "2 longer runs of more patience would decide, in at most an hour of two cores each"
    )


def test_runs_that_have_not_learned_decide_nothing(tmp_path):
    study = dataclasses.replace(
        toy_study.STUDY, work=dataclasses.replace(toy_study.STUDY.work, learned=1.5)
    )
    verdict = decide(tmp_path, [1.9] * SEEDS, [1.0] * SEEDS, study=study)
    assert verdict.word == "not decided"
    assert verdict.missing.startswith("none learned in 0 of 5 runs, BN learned in 5 of 5 runs:")


def test_what_is_no_number_decides_nothing(tmp_path):
    assert decide(tmp_path, [2.0, np.nan, 2.0, 2.0, 2.0], [1.0] * SEEDS).longer


def test_of_one_model_yes_is_at_most_so_much(tmp_path):
    asked = dataclasses.replace(toy_study.QUESTION, plus=(), above=-1.5, unit="points", digits=1)
    verdict = decide(tmp_path, [1.0] * SEEDS, [1.0] * SEEDS, asked)
    assert (verdict.word, verdict.figure) == ("yes", "1.0 ± 0.0 points, at most 1.5; 5 seeds")


@pytest.mark.parametrize(
    ("shift", "word"),
    [
        (1.0, "no, by less"),
        (0.0, "no"),
        (-1.0, "no"),
        (-3.0, "no, the other way"),
    ],
)
def test_no_says_what_there_is_of_a_difference_that_was_asked_for(tmp_path, shift, word):
    asked = dataclasses.replace(toy_study.QUESTION, above=2.0)
    own = np.array([0.1, -0.2, 0.0, 0.2, -0.1])
    assert decide(tmp_path, 20 + NOISE + shift + own, 20 + NOISE, asked).word == word


def test_no_is_no_where_it_was_asked_whether_something_is_at_most_as_large(tmp_path):
    asked = dataclasses.replace(toy_study.QUESTION, above=-1.0)
    assert decide(tmp_path, NOISE, NOISE + 3.0, asked).word == "no"
    alone = dataclasses.replace(toy_study.QUESTION, minus=(), above=30.0)
    assert decide(tmp_path, [20.0] * SEEDS, [1.0] * SEEDS, alone).word == "no"


def test_equal_figures_decide_without_an_interval(tmp_path):
    assert decide(tmp_path, [2.0] * SEEDS, [1.0] * SEEDS).holds is True


def test_missing_runs_are_counted_and_timed(tmp_path):
    verdict = decide(tmp_path, [1.0] * 4, [1.0] * 3)
    assert verdict.word == "not decided"
    assert verdict.missing == "3 runs are missing, 3 minutes"
    assert verdict.seeds == 3


def test_a_study_that_was_not_run_takes_as_long_as_was_timed(tmp_path):
    verdict = decide(tmp_path, [], [])
    assert verdict.missing == "10 runs are missing, 20 minutes"
    assert verdict.figure == ""


def decide_of_one_seed(tmp_path, none, bn):
    """The verdict where each model was run once, with these errors of its test samples."""
    size = dataclasses.replace(SIZE, seeds=1)
    results = ResultsFile(tmp_path / "made.json", toy_study.STUDY, size)
    for model, errors in (("none", none), ("BN", bn)):
        kept = {"samples": {"error": sample_scores.packed(errors)}}
        run = Run(toy_study.STUDY.arm("line", model), 1e-3, 0)
        results.add(run, toy_study.entry(float(np.mean(errors))) | kept)
    return verdicts.decide(toy_study.STUDY, size, results, toy_study.QUESTION)


SAMPLES = np.random.default_rng(0).normal(size=(2, 400))


def test_of_one_seed_the_interval_is_that_of_the_test_samples_in_pairs(tmp_path):
    hard, own = 50 * SAMPLES[0], SAMPLES[1]
    verdict = decide_of_one_seed(tmp_path, hard + 1 + own, hard)
    assert verdict.word == "yes"
    assert verdict.mean == pytest.approx(1 + own.mean(), abs=1e-5)
    assert verdict.half == pytest.approx(1.96 * own.std() / 20, rel=0.1)
    assert verdict.figure.endswith("; 1 seed, resampling 400 parts of the test set")


def test_of_one_seed_what_would_decide_is_in_seeds_and_hours(tmp_path):
    own = SAMPLES[1] - SAMPLES[1].mean()
    verdict = decide_of_one_seed(tmp_path, own + 0.06, np.zeros(400))
    assert verdict.word == "not decided"
    # Three test sets: 1.96 / sqrt(400 n) < 0.06.
    assert re.match(r"some 3 seeds would decide, .*, in 4 minutes$", verdict.missing)


def test_trials_and_whole_runs_take_as_long_as_others_of_their_kind(tmp_path):
    size = dataclasses.replace(SIZE, seeds=1, rates=(1e-3, 3e-2), trial=1)
    study = dataclasses.replace(toy_study.STUDY, full=size)
    results = ResultsFile(tmp_path / "made.json", study, size)
    runs = every_run(study, size, results)
    assert verdicts.seconds_left(study, runs, results) == 4 * 30 + 2 * 120
    for rate in size.rates:
        run = Run(study.arm("line", "BN"), rate, 0, trial=True)
        results.add(run, toy_study.entry(1.0, seconds=20.0))
    results.add(Run(study.arm("line", "BN"), 1e-3, 0), toy_study.entry(1.0, seconds=50.0))
    assert verdicts.seconds_left(study, runs, results) == 2 * 20 + 50
    verdict = verdicts.decide(study, size, results, toy_study.QUESTION)
    assert verdict.missing == "3 runs are missing, 2 minutes"


def test_the_largest_of_the_rates_counts_where_it_is_asked_for(tmp_path):
    size = dataclasses.replace(SIZE, rates=(1e-3, 3e-2), seeds=2)
    results = ResultsFile(tmp_path / "made.json", toy_study.STUDY, size)
    for model, errors in (("none", (5.0, 7.0)), ("BN", (1.0, 2.0))):
        for seed in range(2):
            for rate, error in zip(size.rates, errors, strict=True):
                run = Run(toy_study.STUDY.arm("line", model), rate, seed)
                results.add(run, toy_study.entry(error))
    asked = dataclasses.replace(toy_study.QUESTION, largest_rate=True)
    assert verdicts.differences(toy_study.STUDY, size, results, asked).tolist() == [5.0, 5.0]
