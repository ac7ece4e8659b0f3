"""Run the studies of the papers, and write docs/experiments/index.md and the page of each study.

The results are in docs/experiments/NAME.json. A finished run is not repeated. An interrupted run
continues from its checkpoint in build/experiments.

Run with `make experiments`, or `make experiments STUDY=NAME` for one study.
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
    conversion,
    convolutional,
    covariate_shift,
    digits,
    draw,
    few_features,
    first_batch,
    handwriting,
    learning_curves,
    lengths,
    movielens,
    noise,
    online,
    online_ratings,
    order_embeddings,
    pages,
    permutation_invariant,
    pixels,
    rare_questions,
    recurrences,
    scales,
    shakespeare,
    skip_thoughts,
    translation,
    unbalanced,
    unequal_lengths,
)
from experiments.harness import plots
from experiments.harness.results_file import ResultsFile
from experiments.harness.runs import run_study

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "experiments"

# In the order of their run time, the cheapest first.
STUDIES = {
    module.STUDY.name: module.STUDY
    for module in (
        scales,
        recurrences,
        covariate_shift,
        first_batch,
        digits,
        unbalanced,
        rare_questions,
        online,
        noise,
        conversion,
        few_features,
        unequal_lengths,
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
    """Run the studies, draw the plots and write the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--study", choices=STUDIES, help="run only this study")
    parser.add_argument("--page", action="store_true", help="write the pages without a run")
    arguments = parser.parse_args(argv)
    data = os.environ.get("KERAS_NORM_DATA")
    for name, study in STUDIES.items():
        results = ResultsFile(RESULTS / f"{name}.json", study, study.full)
        if not arguments.page and arguments.study in (None, name):
            checkpoints = ROOT / "build" / "experiments" / name
            folder = pathlib.Path(data) if data else None
            run_study(study, study.full, results, folder, checkpoints)
        plots.draw_curves(study, results, RESULTS / f"{name}.png")
        plots.draw_samples(study, results, RESULTS / pages.drawings_name(study))
    write_pages(ROOT / "docs")
    learning_curves.draw(RESULTS, ROOT / "docs" / "pictures" / "learning_curves.png")
    return 0


def write_pages(docs: pathlib.Path) -> None:
    """Write experiments/index.md and experiments/NAME.md.

    Args:
        docs: folder of the pages.
    """
    found = {name: pages.study_page(study, RESULTS) for name, study in STUDIES.items()}
    folder = docs / "experiments"
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in found.items():
        text = pages.render_study_page(page)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    overview = pages.render_overview(found)
    (folder / "index.md").write_text(overview, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
