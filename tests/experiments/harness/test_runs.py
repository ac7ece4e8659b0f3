"""A study runs all learning rates, then the seeds with the best rate, and repeats nothing."""

import dataclasses

import pytest

from experiments.harness import runs
from experiments.harness.results_file import ResultsFile
from tests.experiments import toy_study


class Recorder:
    """A fake trainer: BN validates better at the larger rate, "none" at the smaller rate."""

    ran: list

    def __init__(self, work, size, parts, build, folder):
        pass

    def run(self, run):
        Recorder.ran.append((run.arm.model, run.rate, run.seed))
        sign = -1 if run.arm.model == "BN" else 1
        return toy_study.entry(1.0) | {"validation": {"error": sign * run.rate}}


EVERY_RATE = [("none", 1e-3, 0), ("none", 3e-2, 0), ("BN", 1e-3, 0), ("BN", 3e-2, 0)]


@pytest.fixture
def ran(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "Trainer", Recorder)
    Recorder.ran = []

    def run(study=toy_study.STUDY):
        results = ResultsFile(tmp_path / "made.json", study, study.full)
        runs.run_study(study, study.full, results, None, tmp_path)
        return results

    return run


def test_validation_chooses_the_rate_before_the_other_seeds_run(ran):
    ran()
    assert Recorder.ran == [*EVERY_RATE, ("none", 1e-3, 1), ("BN", 3e-2, 1)]


def test_after_trials_only_the_best_rate_continues(ran):
    study = dataclasses.replace(toy_study.STUDY, full=dataclasses.replace(toy_study.SIZE, trial=1))
    results = ran(study)
    best = [(*run, seed) for seed in (0, 1) for run in (("none", 1e-3), ("BN", 3e-2))]
    assert Recorder.ran == [*EVERY_RATE, *best]
    assert [entry["trial"] for entry in results.entries] == [True] * 4 + [False] * 4
    found = runs.chosen_runs(study, study.full, results)
    assert all(not e["trial"] for runs in found.values() for e in runs.values())
    Recorder.ran.clear()
    ran(study)
    assert Recorder.ran == []


def test_a_rate_with_a_validation_score_of_nan_is_not_chosen(ran, tmp_path):
    results = ResultsFile(tmp_path / "made.json", toy_study.STUDY, toy_study.SIZE)
    arm = toy_study.STUDY.arms[0]
    for run, error in zip(runs.first_runs(arm, toy_study.SIZE), (float("nan"), 5.0), strict=True):
        results.add(run, toy_study.entry(1.0) | {"validation": {"error": error}})
    assert runs.chosen_rate(toy_study.STUDY, arm, toy_study.SIZE, results) == 3e-2


def test_a_study_may_choose_the_rate_by_another_score(ran, tmp_path):
    work = dataclasses.replace(toy_study.STUDY.work, maximize=True, chosen="nll")
    study = dataclasses.replace(toy_study.STUDY, work=work)
    results = ResultsFile(tmp_path / "made.json", study, toy_study.SIZE)
    arm = study.arms[0]
    for run, nll in zip(
        runs.first_runs(arm, toy_study.SIZE), ([3.0, 1.0], [2.0, 2.0]), strict=True
    ):
        results.add(run, toy_study.entry(run.rate) | {"history": {"error": [1.0, 1.0], "nll": nll}})
    assert runs.chosen_rate(study, arm, toy_study.SIZE, results) == 1e-3
