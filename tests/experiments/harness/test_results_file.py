"""Finished runs are stored, found again, and never mixed with other settings."""

import dataclasses

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


def test_a_finished_run_is_found_again(path):
    results = ResultsFile(path, toy_study.STUDY, toy_study.SIZE)
    assert results.find(RUN)["test"] == {"error": 0.5}
    assert results.find(dataclasses.replace(RUN, seed=1)) is None


def test_results_with_other_settings_are_refused(path):
    other = dataclasses.replace(toy_study.SIZE, patience=9)
    with pytest.raises(
        SystemExit, match="results with another value of patience: remove it and build/"
    ):
        ResultsFile(path, toy_study.STUDY, other)


@pytest.mark.parametrize("content", ["", '{"runs": [', '{"study": "made"}', "[]"])
def test_a_truncated_file_is_refused(path, content):
    path.write_text(content)
    with pytest.raises(SystemExit, match=r"is not a results file .*: remove it"):
        ResultsFile(path, toy_study.STUDY, toy_study.SIZE)
