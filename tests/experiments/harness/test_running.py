"""Learning rates first, then seeds with the best of them; nothing twice."""

import dataclasses

import pytest

from experiments.harness import running
from experiments.harness.ledger import Ledger
from experiments.harness.study import Arm, Measurement
from tests.experiments import made


class Recorder:
    """Stands for a trainer: better validation for the larger rate of BN, the smaller of none."""

    ran: list

    def __init__(self, work, size, parts, build, folder):
        pass

    def run(self, run):
        Recorder.ran.append((run.arm.model, run.rate, run.seed))
        sign = -1 if run.arm.model == "BN" else 1
        return made.entry(1.0) | {"validation": {"error": sign * run.rate}}


@pytest.fixture
def ran(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "Trainer", Recorder)
    Recorder.ran = []

    def run(study=made.STUDY):
        ledger = Ledger(tmp_path / "made.json", study, study.full)
        running.run_study(study, study.full, ledger, None, tmp_path)
        return ledger

    return run


def test_the_rate_is_chosen_by_validation_and_seeds_follow(ran):
    ran()
    assert Recorder.ran == [
        ("none", 1e-3, 0),
        ("none", 3e-2, 0),
        ("BN", 1e-3, 0),
        ("BN", 3e-2, 0),
        ("none", 1e-3, 1),
        ("BN", 3e-2, 1),
    ]


def test_after_trials_the_best_rate_alone_goes_on(ran):
    study = dataclasses.replace(made.STUDY, full=dataclasses.replace(made.SIZE, trial=1))
    ledger = ran(study)
    assert Recorder.ran == [
        ("none", 1e-3, 0),
        ("none", 3e-2, 0),
        ("BN", 1e-3, 0),
        ("BN", 3e-2, 0),
        ("none", 1e-3, 0),
        ("BN", 3e-2, 0),
        ("none", 1e-3, 1),
        ("BN", 3e-2, 1),
    ]
    assert [entry["trial"] for entry in ledger.entries] == [True] * 4 + [False] * 4
    found = running.compared(study, study.full, ledger)
    assert all(not e["trial"] for runs in found.values() for e in runs.values())
    Recorder.ran.clear()
    ran(study)
    assert Recorder.ran == []


def test_what_has_ended_is_not_run_again(ran):
    ran()
    Recorder.ran.clear()
    ran()
    assert Recorder.ran == []


def test_the_largest_rate_is_run_as_well_where_it_is_asked_for(ran):
    question = dataclasses.replace(made.QUESTION, largest_rate=True)
    ran(dataclasses.replace(made.STUDY, questions=(question,)))
    assert Recorder.ran[4:] == [("none", 1e-3, 1), ("none", 3e-2, 1), ("BN", 3e-2, 1)]


@pytest.mark.parametrize("size", [made.SIZE, dataclasses.replace(made.SIZE, trial=1)])
def test_a_study_asks_for_the_runs_that_are_made(ran, tmp_path, size):
    study = dataclasses.replace(made.STUDY, full=size)
    before = running.every_run(study, size, Ledger(tmp_path / "none.json", study, size))
    ledger = ran(study)
    asked = running.every_run(study, size, ledger)
    assert len(before) == len(asked) == len(Recorder.ran)
    assert all(ledger.find(run) for run in asked)


def test_what_decides_nothing_comes_last(ran):
    question = dataclasses.replace(made.QUESTION, plus=())
    ran(dataclasses.replace(made.STUDY, questions=(question,)))
    models = [model for model, *_ in Recorder.ran]
    assert models == ["BN"] * 3 + ["none"] * 3


def test_runs_that_count_have_the_chosen_rate(ran):
    found = running.compared(made.STUDY, made.SIZE, ran())
    assert {model: [e["rate"] for e in runs.values()] for (_, model), runs in found.items()} == {
        "none": [1e-3, 1e-3],
        "BN": [3e-2, 3e-2],
    }


def test_a_rate_whose_validation_is_no_number_is_not_chosen(ran, tmp_path):
    ledger = Ledger(tmp_path / "made.json", made.STUDY, made.SIZE)
    arm = made.STUDY.arms[0]
    for run, error in zip(running.first_runs(arm, made.SIZE), (float("nan"), 5.0), strict=True):
        ledger.add(run, made.entry(1.0) | {"validation": {"error": error}})
    assert running.chosen_rate(made.STUDY, arm, made.SIZE, ledger) == 3e-2


def test_a_loss_chooses_the_rate_where_the_study_says_so(ran, tmp_path):
    work = dataclasses.replace(made.STUDY.work, higher=True, chosen="nll")
    study = dataclasses.replace(made.STUDY, work=work)
    ledger = Ledger(tmp_path / "made.json", study, made.SIZE)
    arm = study.arms[0]
    for run, nll in zip(running.first_runs(arm, made.SIZE), ([3.0, 1.0], [2.0, 2.0]), strict=True):
        ledger.add(run, made.entry(run.rate) | {"history": {"error": [1.0, 1.0], "nll": nll}})
    assert running.chosen_rate(study, arm, made.SIZE, ledger) == 1e-3


def test_measurements_have_no_rate(ran):
    work = Measurement(lambda arm, seed, data: {"error": float(seed)})
    size = dataclasses.replace(made.SIZE, rates=())
    study = dataclasses.replace(made.STUDY, work=work, full=size, arms=(Arm("line", "none"),))
    assert [(e["seed"], e["test"]["error"]) for e in ran(study).entries] == [(0, 0.0), (1, 1.0)]
