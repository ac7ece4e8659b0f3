"""Runs a study: learning rates by validation, then seeds; what has ended is not run again."""

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
    """Run all that the results lacks; its file is written whenever a run ends.

    The learning rate of an arm is the one with the best validation at seed 0: of the whole run, or
    of its first rounds, where the size says so; then the best alone goes on. Then come the seeds,
    all arms of one before the next. Arms that decide questions come before those that only stand
    in the table.

    Args:
        study: which.
        size: `study.full` or `study.smoke`.
        results: what has been run.
        data: the data folder, if there is one.
        checkpoints: folder of what is not done.
    """
    if isinstance(study.work, Training):
        training = study.work
        parts = functools.lru_cache(maxsize=8)(lambda task: training.load(task, size.samples, data))
        trainer = functools.lru_cache(maxsize=64)(  # traced once for all seeds
            lambda arm: Trainer(
                training,
                size,
                parts(arm.task),
                functools.partial(training.build, arm, parts(arm.task)),
                checkpoints,
            )
        )

    def once(run: Run) -> None:
        if results.find(run):
            return
        print(f"{study.name}: {run.name}{', a trial' * run.trial}", flush=True)
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

    asked = {arm for q in study.questions for arm in (*q.plus, *q.minus)}
    for deciding in (True, False):
        arms = [arm for arm in study.arms if ((arm.task, arm.model) in asked) == deciding]
        for arm in arms:
            for run in first_runs(arm, size):
                once(run)
        for run in later_runs(study, arms, size, results):
            once(run)


def first_runs(arm: Arm, size: Size) -> Iterator[Run]:
    """An arm with every learning rate, from seed 0."""
    for rate in size.rates or (0.0,):
        yield Run(arm, rate, 0, trial=size.trial is not None)


def later_runs(
    study: Study, arms: Sequence[Arm], size: Size, results: ResultsFile
) -> Iterator[Run]:
    """What comes once the learning rates are chosen: the other seeds, or after trials all of them.

    Where a question is about the largest learning rate, its arms have that as well.
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
    """All that a study asks for."""
    first = [run for arm in study.arms for run in first_runs(arm, size)]
    return [*first, *later_runs(study, study.arms, size, results)]


def chosen_rate(study: Study, arm: Arm, size: Size, results: ResultsFile) -> float:
    """The rate with the best validation at seed 0; until all of `first_runs` ended, the first."""
    runs = list(first_runs(arm, size))
    ended = {run.rate: entry for run in runs if (entry := results.latest(run))}
    if not isinstance(study.work, Training) or len(ended) < len(runs):
        return runs[0].rate
    work = study.work
    higher = work.higher and work.chosen is None
    choose = max if higher else min

    def score(rate: float) -> float:
        if work.chosen is None:
            value = ended[rate]["validation"][work.monitor]
        else:
            value = min(ended[rate]["history"][work.chosen])
        worst = float("-inf") if higher else float("inf")
        return value if value == value else worst

    return choose(ended, key=score)


def compared(
    study: Study, size: Size, results: ResultsFile
) -> dict[tuple[str, str], dict[int, Entry]]:
    """The runs that count, by (task, model) and seed: those with the learning rate chosen.

    An arm some of whose learning rates have not been run has none yet. A run that is to go on
    counts as it is.
    """
    found: dict[tuple[str, str], dict[int, Entry]] = {}
    for arm in study.arms:
        if not all(results.latest(run) for run in first_runs(arm, size)):
            continue
        rate = chosen_rate(study, arm, size, results)
        entries = {seed: results.latest(Run(arm, rate, seed)) for seed in range(size.seeds)}
        found[arm.task, arm.model] = {s: e for s, e in entries.items() if e is not None}
    return found
