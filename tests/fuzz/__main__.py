"""Export random models and check the files: `python -m tests.fuzz --models 300 --seed 0`."""

import argparse
import collections
import signal
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import conftest  # noqa: F401  # makes keras_norm.export from export/
from tests.fuzz.campaign import Campaign, run_here
from tests.fuzz.trial import FAILED, FORMATS, LOSSES, PASSED, REFUSED, Trial

# The share of the models that each format must export and pass: a refused model tests nothing.
PASSING_SHARE = 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """Run the trials; return 0 if all models ran, none failed and enough passed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--models", type=int, default=300, help="number of models")
    parser.add_argument("--seed", type=int, default=0, help="first seed; later seeds count up")
    parser.add_argument("--minutes", type=float, default=60.0, help="time limit")
    parser.add_argument("--processes", type=int, default=2, help="number of parallel processes")
    parser.add_argument("--here", type=int, nargs="+", metavar="SEED", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.here:
        run_here(args.here)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return 0 if _campaign(args) else 1


def _campaign(args: argparse.Namespace) -> bool:
    """Run all trials and print the results; return whether the campaign passed."""
    console = Console()
    trials: list[Trial] = []
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("models", total=args.models)

        def report(trial: Trial) -> None:
            trials.append(trial)
            progress.advance(task)
            for kind, outcome in trial.outcomes.items():
                if outcome.status == FAILED:
                    console.print(
                        f"seed {trial.seed} ({trial.policy}: {trial.layers})\n"
                        f"  {kind} failed: {outcome.reason}\n"
                        f"  again: python -m tests.fuzz --models 1 --seed {trial.seed}",
                        soft_wrap=True,
                        markup=False,
                    )

        seeds = range(args.seed, args.seed + args.models)
        try:
            Campaign(seeds, args.processes, 60 * args.minutes, report).run()
        except KeyboardInterrupt:
            console.print("interrupted: the summary has the finished trials only")
    console.print(_summary(trials))
    wide = [trial.seed for trial in trials if trial.widened]
    console.print(f"passed within {LOSSES:g} times the rounding error: {sorted(wide) or 'none'}")
    wanting = "; ".join(_shortcomings(trials, args.models))
    well = f"{len(trials)} models, each format passed for at least {PASSING_SHARE:.0%} of them"
    console.print(f"FAIL: {wanting}" if wanting else f"PASS: {well}", soft_wrap=True)
    return not wanting


def _shortcomings(trials: Sequence[Trial], asked: int) -> Iterator[str]:
    """Yield the reasons why the campaign does not pass."""
    if failed := sorted(trial.seed for trial in trials if trial.failed):
        yield f"seeds that failed: {failed}"
    if len(trials) < max(asked, 1):
        yield f"{len(trials)} of {asked} models were run"
    for kind in FORMATS:
        outcomes = (trial.outcomes.get(kind) for trial in trials)
        passed = sum(outcome is not None and outcome.status == PASSED for outcome in outcomes)
        if passed < PASSING_SHARE * asked:
            yield f"{kind} passed for {passed} of {asked} models, not for {PASSING_SHARE:.0%}"


def _summary(trials: list[Trial]) -> Table:
    """Count passed, refused and failed models by format; give one refusal for each dtype policy."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    refused: dict[str, list[str]] = {}
    for trial in sorted(trials, key=lambda trial: trial.seed):
        for kind, outcome in trial.outcomes.items():
            counts[kind, outcome.status] += 1
            if outcome.status == REFUSED:
                reason = f"seed {trial.seed}: {outcome.reason[:120]}"
                refused.setdefault(f"{kind}, {trial.policy}", []).append(reason)
    table = Table("", PASSED, REFUSED, FAILED)
    for kind in sorted({kind for kind, _ in counts}):
        table.add_row(kind, *(str(counts[kind, s]) for s in (PASSED, REFUSED, FAILED)))
    for dtype, reasons in sorted(refused.items()):
        table.add_row(f"{dtype}; {reasons[0]}", "", str(len(reasons)), "")
    return table


if __name__ == "__main__":
    sys.exit(main())
