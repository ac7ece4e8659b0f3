"""What ended is kept whole, found again, and never mixed with other settings."""

import dataclasses
import json

import pytest

from experiments.harness.ledger import Ledger
from experiments.harness.study import Run
from tests.experiments import made

RUN = Run(made.STUDY.arms[0], 1e-3, 0)


@pytest.fixture
def path(tmp_path):
    Ledger(tmp_path / "made.json", made.STUDY, made.SIZE).add(RUN, made.entry(0.5))
    return tmp_path / "made.json"


def test_what_ended_is_found_again(path):
    ledger = Ledger(path, made.STUDY, made.SIZE)
    assert ledger.find(RUN)["test"] == {"error": 0.5}
    assert ledger.find(dataclasses.replace(RUN, seed=1)) is None


def test_a_trial_is_not_its_run(path):
    ledger, trial = Ledger(path, made.STUDY, made.SIZE), dataclasses.replace(RUN, trial=True)
    assert ledger.find(trial) is None
    ledger.add(trial, made.entry(0.7))
    assert ledger.find(trial)["test"] == {"error": 0.7}
    assert ledger.find(RUN)["test"] == {"error": 0.5}


def test_a_run_is_one_line(path):
    assert sum('"seed"' in line for line in path.read_text().splitlines()) == 1


def test_more_seeds_join_those_that_are_there(path):
    more = dataclasses.replace(made.SIZE, seeds=9)
    assert Ledger(path, made.STUDY, more).find(RUN)


@pytest.fixture
def cut(path):
    """The same file, as a bound of two rounds left it when the bound told results apart."""
    head = dataclasses.replace(made.SIZE, rounds=2)
    run = dataclasses.replace(RUN, seed=1)
    Ledger(path, made.STUDY, head).add(run, made.entry(0.7) | {"ended": "rounds"})
    path.write_text(path.read_text().replace(' "patience"', ' "rounds": 2,\n "patience"'))
    return path, run, head


def test_a_run_that_a_bound_on_rounds_cut_off_has_ended_until_it_may_have_more(cut):
    path, run, head = cut
    assert Ledger(path, made.STUDY, head).find(run)["test"] == {"error": 0.7}
    more = Ledger(path, made.STUDY, made.SIZE)
    assert more.find(run) is None
    assert more.latest(run)["test"] == {"error": 0.7}
    assert more.find(RUN)["test"] == {"error": 0.5}  # validation ended it


def test_what_went_on_takes_the_place_of_what_was_cut_off(cut):
    path, run, _ = cut
    Ledger(path, made.STUDY, made.SIZE).add(run, made.entry(0.3))
    ledger = Ledger(path, made.STUDY, made.SIZE)
    assert [entry["test"]["error"] for entry in ledger.entries] == [0.5, 0.3]
    assert ledger.find(run)["test"] == {"error": 0.3}


def test_a_bound_on_rounds_that_an_older_file_tells_is_told_no_more(cut):
    path, run, _ = cut
    assert "rounds" in json.loads(path.read_text())
    Ledger(path, made.STUDY, made.SIZE).add(run, made.entry(0.3))
    assert "rounds" not in json.loads(path.read_text())


def test_other_settings_are_refused(path):
    other = dataclasses.replace(made.SIZE, patience=9)
    with pytest.raises(SystemExit, match=r"results of another patience: remove it, and build/"):
        Ledger(path, made.STUDY, other)


@pytest.mark.parametrize("content", ["", '{"runs": [', '{"study": "made"}', "[]"])
def test_a_file_that_is_cut_off_is_refused(path, content):
    path.write_text(content)
    with pytest.raises(SystemExit, match=r"is no file of results .*: remove it"):
        Ledger(path, made.STUDY, made.SIZE)
