"""Run the studies of the papers, and write docs/experiments.md from what came of them.

What was measured stands in docs/experiments/NAME.json, and is not measured again. A run that is
stopped goes on from its checkpoint in build/experiments.

Run with `make experiments`, or `make experiments STUDY=NAME` for one.
"""

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence

from experiments import (
    attentive_reader,
    characters,
    click_through_rate,
    convolutional,
    covariate_shift,
    draw,
    few_features,
    first_batch,
    handwriting,
    lengths,
    movielens,
    noise,
    online,
    online_ratings,
    order_embeddings,
    page,
    permutation_invariant,
    pixels,
    rare_questions,
    recurrences,
    scales,
    shakespeare,
    skip_thoughts,
    translation,
    unbalanced,
)
from experiments.harness import plots
from experiments.harness.results_file import ResultsFile
from experiments.harness.runs import run_study

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "experiments"

# The cheapest first.
STUDIES = {
    module.STUDY.name: module.STUDY
    for module in (
        scales,
        recurrences,
        covariate_shift,
        first_batch,
        unbalanced,
        rare_questions,
        online,
        noise,
        few_features,
        click_through_rate,
        movielens,
        online_ratings,
        permutation_invariant,
        convolutional,
        order_embeddings,
        attentive_reader,
        translation,
        lengths,
        characters,
        shakespeare,
        pixels,
        handwriting,
        draw,
        skip_thoughts,
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, and write pictures and page."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--study", choices=STUDIES, help="the only one that is run")
    parser.add_argument("--page", action="store_true", help="run none, and write the page alone")
    asked = parser.parse_args(argv)
    data = os.environ.get("KERAS_NORM_DATA")
    for name, study in STUDIES.items():
        results = ResultsFile(RESULTS / f"{name}.json", study, study.full)
        if not asked.page and asked.study in (None, name):
            checkpoints = ROOT / "build" / "experiments" / name
            folder = pathlib.Path(data) if data else None
            run_study(study, study.full, results, folder, checkpoints)
        plots.draw(study, results, RESULTS / f"{name}.png")
        plots.draw_drawings(study, results, RESULTS / page.drawings_of(study))
    (ROOT / "docs" / "experiments.md").write_text(page.page(STUDIES, RESULTS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
