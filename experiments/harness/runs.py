"""Run a study: choose the learning rates by validation, then run the seeds."""

import functools
import pathlib
import time
from collections.abc import Iterator, Sequence

import keras

from experiments.harness.results_file import Entry, ResultsFile
from experiments.harness.study import Arm, Run, Size, Study, Training
from experiments.harness.trainer import Trainer


def run_study(
    study: Study,
    size: Size,
    results: ResultsFile,
    data: pathlib.Path | None,
    checkpoints: pathlib.Path,
) -> None:
    """Run everything that the results file lacks, and store each run when it ends.

    The learning rate of an arm is the one with the best validation score at seed 0. It is chosen
    after whole runs, or after `Size.trial` rounds. The seeds follow, with all arms of a seed before
    the next seed. Arms that decide questions run before the other arms.

    Args:
        study: the study.
        size: `study.full` or `study.smoke`.
        results: the finished runs.
        data: the data folder; None if there is none.
        checkpoints: folder for checkpoints of unfinished runs.
    """
    if isinstance(study.work, Training):
        training = study.work
        parts = functools.lru_cache(maxsize=8)(lambda task: training.load(task, size.samples, data))
        trainer = functools.lru_cache(maxsize=64)(  # tracing once serves all seeds
            lambda arm: Trainer(
                training,
                size,
                parts(arm.task),
                functools.partial(training.build, arm, parts(arm.task)),
                checkpoints,
            )
        )

    def execute(run: Run) -> None:
        if results.find(run):
            return
        print(f"{study.name}: {run.name}{', trial' * run.trial}", flush=True)
        started = time.monotonic()
        if isinstance(study.work, Training):
            entry = trainer(run.arm).run(run)
        else:
            keras.utils.set_random_seed(run.seed)
            entry = {"test": study.work.measure(run.arm, run.seed, data)}
            entry["seconds"] = round(time.monotonic() - started, 1)
        found = entry["test"] or entry["validation"]
        scores = ", ".join(f"{name} {value:.5g}" for name, value in found.items())
        print(f"  {scores}; {time.monotonic() - started:.0f} s", flush=True)
        results.add(run, entry)

    compared = {arm for q in study.questions for arm in (*q.plus, *q.minus)}
    for deciding in (True, False):
        arms = [arm for arm in study.arms if ((arm.task, arm.model) in compared) == deciding]
        for arm in arms:
            for run in first_runs(arm, size):
                execute(run)
        for run in later_runs(study, arms, size, results):
            execute(run)


def first_runs(arm: Arm, size: Size) -> Iterator[Run]:
    """Yield a run with every learning rate at seed 0."""
    for rate in size.rates or (0.0,):
        yield Run(arm, rate, 0, trial=size.trial is not None)


def later_runs(
    study: Study, arms: Sequence[Arm], size: Size, results: ResultsFile
) -> Iterator[Run]:
    """Yield the runs with the chosen learning rate: all seeds after trials, else all but seed 0.

    An arm that a question compares at the largest learning rate also runs at that rate.
    """
    rates = {arm: {chosen_rate(study, arm, size, results)} for arm in arms}
    for arm in arms:
        if (arm.task, arm.model) in study.at_largest_rate:
            rates[arm].add(max(size.rates))
    for seed in size.later_seeds:
        for arm in arms:
            for rate in sorted(rates[arm]):
                yield Run(arm, rate, seed)


def every_run(study: Study, size: Size, results: ResultsFile) -> list[Run]:
    """Return all runs of a study."""
    first = [run for arm in study.arms for run in first_runs(arm, size)]
    return [*first, *later_runs(study, study.arms, size, results)]


def chosen_rate(study: Study, arm: Arm, size: Size, results: ResultsFile) -> float:
    """Return the learning rate with the best validation score at seed 0.

    Until all of `first_runs` have ended, it is the first rate.
    """
    runs = list(first_runs(arm, size))
    ended = {run.rate: entry for run in runs if (entry := results.find(run))}
    if not isinstance(study.work, Training) or len(ended) < len(runs):
        return runs[0].rate
    work = study.work
    maximize = work.maximize and work.chosen is None
    choose = max if maximize else min

    def score(rate: float) -> float:
        if work.chosen is None:
            value = ended[rate]["validation"][work.monitor]
        else:
            value = min(ended[rate]["history"][work.chosen])
        worst = float("-inf") if maximize else float("inf")
        return value if value == value else worst

    return choose(ended, key=score)


def chosen_runs(
    study: Study, size: Size, results: ResultsFile
) -> dict[tuple[str, str], dict[int, Entry]]:
    """Return the runs with the chosen learning rate, by (task, model) and seed.

    An arm is missing until a run with each of its learning rates has ended.
    """
    found: dict[tuple[str, str], dict[int, Entry]] = {}
    for arm in study.arms:
        if not all(results.find(run) for run in first_runs(arm, size)):
            continue
        rate = chosen_rate(study, arm, size, results)
        entries = {seed: results.find(Run(arm, rate, seed)) for seed in range(size.seeds)}
        found[arm.task, arm.model] = {s: e for s, e in entries.items() if e is not None}
    return found
