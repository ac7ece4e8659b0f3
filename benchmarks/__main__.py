"""Command line of the benchmark: run, table, plot."""

import argparse
import dataclasses
import os
import pathlib
import sys
import time

import rich.console

from benchmarks import report, results, settings
from benchmarks.results import Measurement, Results
from keras_norm_cli import quiet_native_logs

JSON = pathlib.Path("benchmarks/results.json")
QUICK_JSON = pathlib.Path("build/benchmark/quick.json")
FIGURE = pathlib.Path("docs/pictures/benchmark.png")


def main(argv: list[str] | None = None) -> int:
    """Run one command, and return the exit status."""
    args = _arguments(argv)
    if args.command == "run":
        console = rich.console.Console()
        report.print_tables(run(args, console), console)
    elif args.command == "table":
        print(report.markdown(Results.load(args.json)))
    else:
        from benchmarks.plot import plot

        plot(Results.load(args.json), args.to)
    return 0


def run(args: argparse.Namespace, console: rich.console.Console) -> Results:
    """Measure every suite, and write the file after each."""
    config = settings.QUICK if args.quick else settings.FULL
    if args.rounds:
        config = dataclasses.replace(config, rounds=args.rounds)
    path = args.json or (QUICK_JSON if args.quick else JSON)
    found = results.begin(dataclasses.asdict(config))
    if args.only and path.exists():
        earlier = Results.load(path)
        if not earlier.continues(found):
            sys.exit(
                f"{path} has results of another machine or other settings. Use another --json."
            )
        found = dataclasses.replace(found, measurements=earlier.measurements)
    if (load := os.getloadavg()[0]) > 0.5:
        console.print(
            f"Other processes use this machine (load {load:.1f}), which slows the benchmark.",
            style="yellow",
            highlight=False,
        )
    with quiet_native_logs():
        for suite in args.only or config.suites:
            found = found.with_suite(suite, measure(suite, config, console))
            found.save(path)
    console.print(f"{path} has the times of every round.", highlight=False)
    return found


def measure(
    suite: str, config: settings.Settings, console: rich.console.Console
) -> list[Measurement]:
    """Run one suite, and print a line after each measurement.

    There is no progress bar, because its thread would disturb the timed rounds.
    """
    console.print(f"measuring {suite}", highlight=False)
    from benchmarks.suites import RUN  # imports TensorFlow, which `table` and `plot` do not need

    measured = []
    start = time.perf_counter()
    for measurement in RUN[suite](config):
        measured.append(measurement)
        seconds = time.perf_counter() - start
        line = f"  {measurement.mode:<18} {measurement.shape!s:<20} {seconds:6.1f} s"
        console.print(line, highlight=False)
        start = time.perf_counter()
    return measured


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the speed of the layers, and show the results.",
    )
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")

    run = commands.add_parser("run", help="measure, and print tables")
    run.add_argument(
        "--quick", action="store_true", help="measure few shapes, in under two minutes"
    )
    run.add_argument(
        "--only",
        type=_suites,
        metavar="SUITE,...",
        help=f"suites to run, of {', '.join(settings.SUITES)}; results of others are kept",
    )
    run.add_argument("--rounds", type=int, help="number of warm rounds")
    run.add_argument(
        "--json", type=pathlib.Path, metavar="FILE", help=f"default {JSON}; quick: {QUICK_JSON}"
    )

    table = commands.add_parser("table", help="print the tables of the pages")
    plot = commands.add_parser("plot", help="draw the figure")
    for command in (table, plot):
        command.add_argument("--json", type=pathlib.Path, metavar="FILE", default=JSON)
    plot.add_argument("--to", type=pathlib.Path, metavar="FILE.png", default=FIGURE)
    return parser.parse_args(argv)


def _suites(text: str) -> tuple[str, ...]:
    suites = tuple(text.split(","))
    unknown = [suite for suite in suites if suite not in settings.SUITES]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown suite: {', '.join(unknown)}. Choose from {', '.join(settings.SUITES)}"
        )
    return suites


if __name__ == "__main__":
    sys.exit(main())
