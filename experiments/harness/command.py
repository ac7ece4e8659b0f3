"""The command line of every short study: `python -m experiments.NAME --preset small`."""

import argparse
import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

Settings = TypeVar("Settings")


@dataclasses.dataclass(frozen=True)
class Command(Generic[Settings]):
    """What was asked for.

    Attributes:
        example: name of the example.
        preset: name of its settings.
        settings: what the preset stands for.
        data: folder of the data; None leaves them to TFDS.
        seed: the first seed.
        out: folder of all that the example writes.
    """

    example: str
    preset: str
    settings: Settings
    data: pathlib.Path | None
    seed: int
    out: pathlib.Path


def parse(
    example: str,
    description: str,
    presets: Mapping[str, Settings],
    argv: Sequence[str] | None,
) -> Command[Settings]:
    """Read the arguments that all short studies take.

    Args:
        example: its name, as in `python -m experiments.NAME`.
        description: its docstring, whose first line `--help` shows.
        presets: its settings by name; "small" is the default.
        argv: the arguments; None takes those of the process.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{example}",
        description=description.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--preset", choices=presets, default="small", help="settings")
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        metavar="DIR",
        default=os.environ.get("KERAS_NORM_DATA") or None,
        help="folder of the data, also by KERAS_NORM_DATA; TFDS downloads what it has of the rest",
    )
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="the first seed")
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        metavar="DIR",
        default=argparse.SUPPRESS,
        help=f"folder of what is written (default: build/experiments/{example}/PRESET)",
    )
    args = parser.parse_args(argv)
    out = getattr(args, "out", pathlib.Path("build/experiments", example, args.preset))
    return Command(example, args.preset, presets[args.preset], args.data, args.seed, out)
