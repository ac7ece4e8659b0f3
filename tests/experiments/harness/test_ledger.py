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


def test_other_settings_are_refused(path):
    other = dataclasses.replace(made.SIZE, patience=9)
    with pytest.raises(SystemExit, match=r"results of another patience: remove it"):
        Ledger(path, made.STUDY, other)


@pytest.mark.parametrize("content", ["", '{"runs": [', json.dumps({"study": "made"})])
def test_a_file_that_is_cut_off_is_refused(path, content):
    path.write_text(content)
    with pytest.raises(SystemExit, match=r"is no file of results .*: remove it"):
        Ledger(path, made.STUDY, made.SIZE)
