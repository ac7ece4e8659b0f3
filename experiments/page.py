"""docs/experiments.md, from the committed results alone."""

import dataclasses
import pathlib
from collections.abc import Mapping

import jinja2
import numpy as np

from experiments import short_runs
from experiments.harness import deciding, tables
from experiments.harness.deciding import Verdict
from experiments.harness.ledger import Ledger
from experiments.harness.running import compared
from experiments.harness.study import Study

TEMPLATE = pathlib.Path(__file__).with_suffix(".md.jinja")

CLAIMS = {
    1: "LayerNorm computes the same in training and inference; BatchNorm does not.",
    2: "BatchNorm depends on the batch size and suffers at small ones; LayerNorm works at batch "
    "size 1.",
    3: "Recurrent BatchNorm lacks statistics for test sequences longer than any in training; "
    "LayerNorm needs none.",
    4: "Without normalization the summed input of a recurrence grows or shrinks over the steps, "
    "and gradients with it; LayerNorm holds them.",
    5: "BatchNorm speeds up the training of static networks more than LayerNorm; its noise "
    "regularises.",
    6: "Dividing by the deviation matters more than subtracting the mean.",
    7: "Normalising embeddings helps click-through-rate models; LayerNorm and its variants are the "
    "most stable there.",
    8: "BatchNorm belongs before the activation.",
    9: "BatchNorm erases differences of scale between features and keeps those between samples; "
    "LayerNorm the reverse.",
    10: "A very unbalanced binary task or a tiny batch makes BatchNorm's statistics misleading.",
}

# BatchNorm beside LayerNorm: what is said of each, and the study that has the number.
BESIDE = (
    ("statistics of", "the mini-batch, each feature", "one sample, all features", "scales"),
    (
        "batch size",
        "matters; better when large",
        "does not matter; serves small ones",
        "permutation_invariant",
    ),
    ("used in", "CNN, MLP, deep static networks", "RNN, Transformer, sequences", "convolutional"),
    ("speeds training up", "well", "less", "convolutional"),
    ("training and inference", "differ, need care", "the same", "scales"),
    ("regularises", "yes, by the batch's noise", "less", "permutation_invariant"),
)


@dataclasses.dataclass(frozen=True)
class Section:
    """What the page shows of a study.

    Attributes:
        study: which.
        verdicts: on its questions.
        header: of its table.
        rows: of its table.
        progress: how much has been run.
        picture: name of its file, if there is one.
    """

    study: Study
    verdicts: tuple[Verdict, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    progress: str
    picture: str | None

    @property
    def anchor(self) -> str:
        """That GitHub gives its heading."""
        kept = (c for c in self.study.title.lower() if c.isalnum() or c in " -")
        return "".join(kept).replace(" ", "-")


def section(study: Study, committed: pathlib.Path) -> Section:
    """What the committed results say of a study."""
    ledger = Ledger(committed / f"{study.name}.json", study, study.full)
    verdicts = tuple(deciding.decide(study, study.full, ledger, q) for q in study.questions)
    header = ("task", "model", *(heading for heading, *_ in study.scores.values()))
    paper = bool(study.figures)
    header += ("in the paper",) * paper + ("seeds",) + ("rate",) * bool(study.full.rates)
    rows = []
    for (task, model), entries in compared(study, study.full, ledger).items():
        runs = list(entries.values())
        if not runs:
            continue
        cells = []
        for name, (_, scale, digits) in study.scores.items():
            values = [scale * run["test"][name] for run in runs if name in run["test"]]
            cells.append(tables.spread(values, digits) if values else "")
        cells += [study.figures.get((task, model), "")] * paper + [str(len(runs))]
        rows.append((task, model, *cells, *[f"{runs[0]['rate']:g}"] * bool(study.full.rates)))
    picture = f"{study.name}.png"
    return Section(
        study,
        verdicts,
        header,
        tuple(rows),
        progress(study, ledger),
        picture if (committed / picture).exists() else None,
    )


def progress(study: Study, ledger: Ledger) -> str:
    """How many of the runs have ended, what they took, and why they ended."""
    done = len(ledger.entries)
    each = deciding.seconds_of_run(study, ledger.entries)
    left = study.runs - done
    said = f"{done} of {study.runs} runs have ended"
    if done:
        said += f", after {np.mean([e['seconds'] for e in ledger.entries]):.0f} s in the mean"
    if left > 0:
        said += f"; the other {left} take some {deciding.time(left * each)}"
    early = [e for e in ledger.entries if e.get("ended") in ("rounds", "hour")]
    if early:
        said += f"; {len(early)} ended by the bound on rounds or time, before their validation did"
    return f"{said}."


def page(studies: Mapping[str, Study], committed: pathlib.Path) -> str:
    """The page as Markdown.

    Args:
        studies: by name, in the order of the page.
        committed: folder of the results.
    """
    sections = {name: section(study, committed) for name, study in studies.items()}
    asked = [(s, v) for s in sections.values() for v in s.verdicts]
    return (
        _environment()
        .get_template("page")
        .render(
            claims={
                number: (claim, [(s, v) for s, v in asked if v.question.claim == number])
                for number, claim in CLAIMS.items()
            },
            beside=BESIDE,
            sections=sections,
            **short_runs.content(committed),
        )
    )


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.DictLoader({"page": TEMPLATE.read_text(encoding="utf-8")}),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
