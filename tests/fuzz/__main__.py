"""Export random models and check the files: `python -m tests.fuzz --models 300 --seed 0`."""

import argparse
import collections
import signal
import sys

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import conftest  # noqa: F401  # makes keras_norm.export from export/
from tests.fuzz.campaign import Campaign, run_here
from tests.fuzz.trial import FAILED, LOSSES, PASSED, REFUSED, Trial


def main() -> int:
    """Run the trials that the arguments ask for; 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--models", type=int, default=300, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the others count on")
    parser.add_argument("--minutes", type=float, default=60.0, help="time limit")
    parser.add_argument("--processes", type=int, default=2, help="how many run at once")
    parser.add_argument("--here", type=int, nargs="+", metavar="SEED", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        run_here(args.here)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return 1 if _campaign(args) else 0


def _campaign(args: argparse.Namespace) -> bool:
    """Whether a trial failed, or none was run."""
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
            console.print("interrupted: the summary is of what was done")
    console.print(_summary(trials))
    failed = [trial.seed for trial in trials if trial.failed]
    wide = [trial.seed for trial in trials if trial.widened]
    console.print(f"{len(trials)} of {args.models} models; failed: {sorted(failed) or 'none'}")
    console.print(f"passed within {LOSSES:g} times what the model loses: {sorted(wide) or 'none'}")
    return bool(failed) or not trials


def _summary(trials: list[Trial]) -> Table:
    """How often each format passed, was refused and failed, and why it was refused."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    reasons: dict[str, list[int]] = {}
    for trial in trials:
        for kind, outcome in trial.outcomes.items():
            counts[kind, outcome.status] += 1
            if outcome.status == REFUSED:
                reason = f"{kind}, {trial.policy}: {outcome.reason[:120]}"
                reasons.setdefault(reason, []).append(trial.seed)
    table = Table("", PASSED, REFUSED, FAILED)
    for kind in sorted({kind for kind, _ in counts}):
        table.add_row(kind, *(str(counts[kind, s]) for s in (PASSED, REFUSED, FAILED)))
    for reason, seeds in sorted(reasons.items()):
        table.add_row(reason, "", f"{len(seeds)} (seed {seeds[0]})", "")
    return table


if __name__ == "__main__":
    sys.exit(main())
