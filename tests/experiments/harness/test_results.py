"""What was measured is kept, and not measured again."""

import dataclasses
import json
import pathlib

import pytest

from experiments.harness.command import Command
from experiments.harness.results import Results, Run, grouped


@dataclasses.dataclass(frozen=True)
class Settings:
    sizes: tuple[int, ...] = (3, 4)


RUN = Run("counting", "LSTM", 0)


@pytest.fixture
def asked(tmp_path):
    return Command("count", "small", Settings(), None, 0, tmp_path / "out")


def refuse():
    raise AssertionError("measured again")


def test_an_entry_has_its_run_what_was_measured_and_the_seconds(asked):
    entry = Results(asked).once("runs", RUN, lambda: {"accuracy": 0.5})
    assert entry.pop("seconds") >= 0
    assert entry == {"task": "counting", "model": "LSTM", "seed": 0, "accuracy": 0.5}


def test_a_second_process_measures_only_what_is_missing(asked):
    first = Results(asked).once("runs", RUN, lambda: {"accuracy": 0.5})
    again = Results(asked)
    assert again.once("runs", RUN, refuse) == first
    assert again.once("checks", RUN, lambda: {"passed": True})["passed"]
    assert again.once("runs", dataclasses.replace(RUN, seed=1), lambda: {"accuracy": 1})["seed"]


def test_what_was_interrupted_leaves_what_was_whole(asked):
    results = Results(asked)
    results.once("runs", RUN, lambda: {"accuracy": 0.5})

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        results.once("runs", dataclasses.replace(RUN, seed=1), interrupted)
    (entry,) = json.loads(results.path.read_text())["entries"]["runs"]
    assert entry["seed"] == 0


@pytest.mark.parametrize("other", [{"seed": 1}, {"settings": Settings((3,))}, {"preset": "paper"}])
def test_results_of_other_settings_are_not_mixed_with_these(asked, other):
    Results(asked).once("runs", RUN, lambda: {"accuracy": 0.5})
    with pytest.raises(SystemExit, match=r"other settings: remove it .* or give another --out"):
        Results(dataclasses.replace(asked, **other))


def test_the_file_says_what_the_figures_depend_on(asked):
    Results(asked).once("runs", RUN, lambda: {})
    content = json.loads(pathlib.Path(asked.out, "results.json").read_text())
    assert content["settings"] == {"sizes": [3, 4]}
    assert content["machine"].keys() == {"processors", "tensorflow", "keras"}


def test_entries_are_grouped_by_task_and_model():
    entries = [dataclasses.asdict(Run(task, "GRU", seed)) for seed in (0, 1) for task in "ab"]
    groups = grouped(entries)
    assert [entry["seed"] for entry in groups["b"]["GRU"]] == [0, 1]


def best_of(results, check):
    runs = [
        results.once("runs", Run("counting", "LSTM", seed), lambda a=a: {"curves": {"val": [a, 0]}})
        for seed, a in enumerate((0.5, 0.7))
    ]
    return results.once_of_best(runs, ["LSTM"], check, "val")


def test_the_best_run_is_checked_once(asked):
    checks = best_of(Results(asked), lambda run: {"passed": run.seed == 1})
    assert [(check["seed"], check["passed"]) for check in checks] == [(1, True)]
    assert best_of(Results(asked), refuse) == checks


def test_every_task_has_its_best_run(asked):
    results = Results(asked)
    runs = [
        results.once("runs", Run(task, "LSTM", 0), lambda: {"curves": {"val": [0.5]}})
        for task in ("counting", "adding")
    ]
    checks = results.once_of_best(runs, ["LSTM"], lambda run: {"passed": True}, "val")
    assert [check["task"] for check in checks] == ["counting", "adding"]


def test_what_failed_is_checked_again(asked):
    best_of(Results(asked), lambda run: {"passed": False})
    (check,) = best_of(Results(asked), lambda run: {"passed": True})
    assert check["passed"]


def test_a_run_that_is_measured_again_is_checked_again(asked):
    results = Results(asked)
    best_of(results, lambda run: {"passed": True})
    del results.entries["runs"][1]
    (check,) = best_of(results, lambda run: {"passed": True, "anew": True})
    assert check["anew"]
    assert results.entries["checks"] == [check]
