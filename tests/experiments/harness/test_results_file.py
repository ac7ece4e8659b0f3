"""What ended is kept whole, found again, and never mixed with other settings."""

import dataclasses
import json

import pytest

from experiments.harness.results_file import ResultsFile
from experiments.harness.study import Run
from tests.experiments import toy_study

RUN = Run(toy_study.STUDY.arms[0], 1e-3, 0)


@pytest.fixture
def path(tmp_path):
    ResultsFile(tmp_path / "made.json", toy_study.STUDY, toy_study.SIZE).add(
        RUN, toy_study.entry(0.5)
    )
    return tmp_path / "made.json"


def test_what_ended_is_found_again(path):
    results = ResultsFile(path, toy_study.STUDY, toy_study.SIZE)
    assert results.find(RUN)["test"] == {"error": 0.5}
    assert results.find(dataclasses.replace(RUN, seed=1)) is None


def test_a_trial_is_not_its_run(path):
    results, trial = (
        ResultsFile(path, toy_study.STUDY, toy_study.SIZE),
        dataclasses.replace(RUN, trial=True),
    )
    assert results.find(trial) is None
    results.add(trial, toy_study.entry(0.7))
    assert results.find(trial)["test"] == {"error": 0.7}
    assert results.find(RUN)["test"] == {"error": 0.5}


def test_a_run_is_one_line(path):
    assert sum('"seed"' in line for line in path.read_text().splitlines()) == 1


def test_more_seeds_join_those_that_are_there(path):
    more = dataclasses.replace(toy_study.SIZE, seeds=9)
    assert ResultsFile(path, toy_study.STUDY, more).find(RUN)


@pytest.fixture
def cut(path):
    """The same file, as a bound of two rounds left it when the bound told results apart."""
    head = dataclasses.replace(toy_study.SIZE, rounds=2)
    run = dataclasses.replace(RUN, seed=1)
    ResultsFile(path, toy_study.STUDY, head).add(run, toy_study.entry(0.7) | {"ended": "rounds"})
    path.write_text(path.read_text().replace(' "patience"', ' "rounds": 2,\n "patience"'))
    return path, run, head


def test_a_run_that_a_bound_on_rounds_cut_off_has_ended_until_it_may_have_more(cut):
    path, run, head = cut
    assert ResultsFile(path, toy_study.STUDY, head).find(run)["test"] == {"error": 0.7}
    more = ResultsFile(path, toy_study.STUDY, toy_study.SIZE)
    assert more.find(run) is None
    assert more.latest(run)["test"] == {"error": 0.7}
    assert more.find(RUN)["test"] == {"error": 0.5}  # validation ended it


def test_what_went_on_takes_the_place_of_what_was_cut_off(cut):
    path, run, _ = cut
    ResultsFile(path, toy_study.STUDY, toy_study.SIZE).add(run, toy_study.entry(0.3))
    results = ResultsFile(path, toy_study.STUDY, toy_study.SIZE)
    assert [entry["test"]["error"] for entry in results.entries] == [0.5, 0.3]
    assert results.find(run)["test"] == {"error": 0.3}


def test_a_bound_on_rounds_that_an_older_file_tells_is_told_no_more(cut):
    path, run, _ = cut
    assert "rounds" in json.loads(path.read_text())
    ResultsFile(path, toy_study.STUDY, toy_study.SIZE).add(run, toy_study.entry(0.3))
    assert "rounds" not in json.loads(path.read_text())


def test_other_settings_are_refused(path):
    other = dataclasses.replace(toy_study.SIZE, patience=9)
    with pytest.raises(SystemExit, match=r"results of another patience: remove it, and build/"):
        ResultsFile(path, toy_study.STUDY, other)


@pytest.mark.parametrize("content", ["", '{"runs": [', '{"study": "made"}', "[]"])
def test_a_file_that_is_cut_off_is_refused(path, content):
    path.write_text(content)
    with pytest.raises(SystemExit, match=r"is no file of results .*: remove it"):
        ResultsFile(path, toy_study.STUDY, toy_study.SIZE)
