"""What the page shows of the first, short runs, until longer ones take their place.

`python -m experiments.sequential_mnist --preset small`, say, was one of them; what they measured
stands in docs/experiments.
"""

import json
import pathlib
from collections.abc import Iterable
from typing import Any

from experiments import character_model, sentence_classification, sequential_mnist
from experiments.harness import tables
from experiments.harness.results import Entry

STUDIES: dict[str, Any] = {
    module.__name__.removeprefix("experiments."): module
    for module in (sequential_mnist, character_model, sentence_classification)
}


def content(committed: pathlib.Path) -> dict[str, Any]:
    """For the template of the page.

    Args:
        committed: folder of the results.
    """
    results = {name: json.loads((committed / f"{name}.json").read_text()) for name in STUDIES}
    return {
        "results": results,
        "tables": {
            name: beside_the_paper(study, results[name]["entries"]["runs"])
            for name, study in STUDIES.items()
        },
        "durations": {name: duration(content) for name, content in results.items()},
    }


def beside_the_paper(study: Any, runs: Iterable[Entry]) -> tuple[list[str], tables.Rows]:
    """Header and rows of a table; what the paper reports stands beside the first figure.

    A study's first column has the paper's metric.
    """
    header, rows = tables.header(study.COLUMNS), tables.rows(runs, study.COLUMNS)
    unit = header[2].rpartition(", ")[2]
    return [*header[:3], f"in the paper, {unit}", *header[3:]], [
        [*row[:3], study.PAPER.get(tuple(row[:2]), ""), *row[3:]] for row in rows
    ]


def duration(content: dict[str, Any]) -> str:
    """How long all entries of a result file took.

    >>> duration({"entries": {"runs": [{"seconds": 100.0}, {"seconds": 20.0}]}})
    '2 minutes'
    """
    seconds = sum(e["seconds"] for entries in content["entries"].values() for e in entries)
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"
