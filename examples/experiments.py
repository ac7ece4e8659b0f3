"""Run the `small` preset of every example, and write docs/experiments.md from what came of it.

What was measured stands in docs/experiments/NAME.json and is not measured again: remove entries of
it to have them anew. Models, logs, exports and what an interrupted run measured are in
build/experiments; remove both to begin again.

Run with `make experiments`; `python -m examples.experiments --page` writes the page alone.
"""

import argparse
import json
import pathlib
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import jinja2

from examples import (
    character_model,
    claims,
    sentence_classification,
    sequential_mnist,
    verdicts,
)
from examples.common import tables
from examples.common.results import Entry

ROOT = pathlib.Path(__file__).parents[1]
TEMPLATE = pathlib.Path(__file__).with_suffix(".md.jinja")

# In the order in which they run and stand on the page; each has a picture of the same name.
EXAMPLES: dict[str, Any] = {
    module.__name__.removeprefix("examples."): module
    for module in (claims, sequential_mnist, character_model, sentence_classification)
}


def run(name: str, committed: pathlib.Path, out: pathlib.Path) -> bool:
    """Measure what is missing of an example, and keep its results and its picture.

    Args:
        name: of the example.
        committed: folder of results and pictures.
        out: folder of all else.

    Returns:
        Whether its exports passed their checks.
    """
    kept, worked_on = committed / f"{name}.json", out / name / "results.json"
    for folder in (committed, worked_on.parent):
        folder.mkdir(parents=True, exist_ok=True)
    if kept.exists() and (
        not worked_on.exists() or kept.stat().st_mtime > worked_on.stat().st_mtime
    ):
        shutil.copy(kept, worked_on)
    status = EXAMPLES[name].main(["--preset", "small", "--out", str(worked_on.parent)])
    shutil.copy(worked_on, kept)
    shutil.copy(worked_on.with_name("curves.png"), kept.with_suffix(".png"))
    return status == 0


def page(committed: pathlib.Path) -> str:
    """The page as Markdown.

    Args:
        committed: folder of the results.
    """
    results = {name: json.loads((committed / f"{name}.json").read_text()) for name in EXAMPLES}
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        results=results,
        examples=EXAMPLES,
        tables={
            name: _beside_the_paper(example, results[name]["entries"]["runs"])
            for name, example in EXAMPLES.items()
            if example is not claims
        },
        durations={name: duration(content) for name, content in results.items()},
        verdicts=verdicts.all_of(results),
    )


def _beside_the_paper(example: Any, runs: Iterable[Entry]) -> tuple[list[str], tables.Rows]:
    """Header and rows of an example's table; what its paper reports stands beside the first figure.

    An example's first column has the paper's metric.
    """
    header, rows = tables.header(example.COLUMNS), tables.rows(runs, example.COLUMNS)
    unit = header[2].rpartition(", ")[2]
    return [*header[:3], f"in the paper, {unit}", *header[3:]], [
        [*row[:3], example.PAPER.get(tuple(row[:2]), ""), *row[3:]] for row in rows
    ]


def duration(content: dict[str, Any]) -> str:
    """How long all entries of a result file took.

    >>> duration({"entries": {"runs": [{"seconds": 100.0}, {"seconds": 20.0}]}})
    '2 minutes'
    """
    seconds = sum(e["seconds"] for entries in content["entries"].values() for e in entries)
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def main(argv: Sequence[str] | None = None) -> int:
    """Run, and write the page; 0 when every check passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the page, and run nothing")
    committed = ROOT / "docs" / "experiments"
    passed = True
    if not parser.parse_args(argv).page:
        for name in EXAMPLES:
            passed &= run(name, committed, ROOT / "build" / "experiments")
    (ROOT / "docs" / "experiments.md").write_text(page(committed), encoding="utf-8")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
