"""docs/experiments.md, from the committed results alone."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import jinja2
import numpy as np

from experiments.claims import BESIDE, CLAIMS, IN_SHORT, Cell
from experiments.harness import tables, verdicts
from experiments.harness.results_file import Entry, ResultsFile
from experiments.harness.run_scores import EPOCHS, score_of
from experiments.harness.runs import compared, every_run
from experiments.harness.study import Study, Training
from experiments.harness.verdicts import Verdict

TEMPLATE = pathlib.Path(__file__).with_suffix(".md.jinja")


@dataclasses.dataclass(frozen=True)
class Claim:
    """A row of the first table.

    Attributes:
        cell: what is claimed, and the figures that say most of it.
        asked: the verdicts on its questions, by the section that has them.
    """

    cell: Cell
    asked: tuple[tuple["Section", tuple[Verdict, ...]], ...]

    @property
    def verdict(self) -> str:
        """Of the questions that are decided."""
        words = {v.answer for _, found in self.asked for v in found if v.holds is not None}
        return " and ".join(sorted(words, reverse=True)) or "not decided"

    @property
    def answers(self) -> str:
        """How many of its questions have which answer."""
        return counted(verdict for _, found in self.asked for verdict in found)

    @property
    def decided(self) -> str:
        """The same of those that have one."""
        decided = (v for _, found in self.asked for v in found if v.holds is not None)
        return counted(decided)

    @property
    def studies(self) -> list[str]:
        """What each study says."""
        return [f"{section.link}: {section.said(found)}" for section, found in self.asked]


@dataclasses.dataclass(frozen=True)
class Section:
    """What the page shows of a study.

    Attributes:
        study: which.
        verdicts: on its questions.
        header: of its table.
        rows: of its table.
        progress: how much has been run.
        left: what the rest takes, if anything.
        seconds: what all its runs took, by the clock.
        picture: name of its file, if there is one.
        drawings: name of the file with what its models drew, and its caption, if there is one.
        found: the runs that count, by (task, model) and seed.
    """

    study: Study
    verdicts: tuple[Verdict, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    progress: str
    left: str
    seconds: float
    picture: str | None
    drawings: tuple[str, str] | None
    found: Mapping[tuple[str, str], Mapping[int, Entry]]

    @property
    def anchor(self) -> str:
        """That GitHub gives its heading."""
        return anchor(self.study.title)

    @property
    def link(self) -> str:
        """To its place on the page."""
        return f"[{self.study.title}](#{self.anchor})"

    @property
    def figure_heading(self) -> str:
        """The heading of the paper's figure that it asks about; empty without one."""
        figure = self.study.figure
        return f"Figure {figure.number}: {self.study.title}" if figure else ""

    @property
    def ends(self) -> list[tuple[str, ...]]:
        """How that figure ends, in the paper and here: a header, and a row for each score."""
        assert self.study.figure is not None
        tasks, models = (list(dict.fromkeys(names)) for names in zip(*self.found, strict=True))
        rows: list[tuple[str, ...]] = [("", "", *models)]
        for score, told in self.study.figure.ends.items():
            heading = self.study.scores[score][0]
            if told:
                rows.append((heading, "paper", *(told.get(model, "") for model in models)))
            for task in tasks:
                here = f"here{f', {task}' * (len(tasks) > 1)}"
                rows.append((heading, here, *(self.mean((task, m), score) for m in models)))
        return rows

    def said(self, verdicts: Sequence[Verdict]) -> str:
        """How many are decided, what would decide the others, and whether a bound ended runs."""
        open_ones = [verdict for verdict in verdicts if verdict.holds is None]
        said = counted(verdicts) + (f" ({self._missing(open_ones)})" if open_ones else "")
        return said + "; runs cut off" * any(verdict.cut for verdict in verdicts)

    def _missing(self, unsettled: Sequence[Verdict]) -> str:
        if any(not verdict.needed and not verdict.longer for verdict in unsettled):
            return f"{self.left} more"
        needed = sorted({verdict.needed for verdict in unsettled if not verdict.longer})
        seeds = [f"{n:,}" for n in needed if n <= verdicts.MOST]
        seeds += [f"more than {verdicts.MOST:,}"] * bool(needed and needed[-1] > verdicts.MOST)
        said = [f"{', '.join(seeds)} seeds"] * bool(seeds)
        longer = len(frozenset().union(*(verdict.longer for verdict in unsettled)))
        hours = "an hour" if longer == 1 else f"{longer} hours"
        said += [f"longer runs, at most {hours}"] * bool(longer)
        return "; ".join(said)

    def mean(self, arm: tuple[str, str], score: str) -> str:
        """Of the seeds, with its interval; empty where there are none.

        Of how long a level took, it is that of the runs that got there, and says how many.
        """
        _, scale, digits = self.study.scores[score]
        runs = self.found.get(arm, {}).values()
        scores = [score_of(self.study.work, run, score) for run in runs]
        values = [scale * value for value in scores if value is not None]
        said = tables.spread(values, digits) if values else ""
        if score == EPOCHS and len(values) < len(runs):
            return f"{said or 'none'}, {len(values)} of {len(runs)} runs"
        return said

    def figures(self, cell: Cell) -> str:
        """The figures of a cell of CLAIMS or BESIDE."""
        heading = self.study.scores[cell.score][0]
        if not self.found:
            return f"{heading}: not run yet"
        tasks = dict.fromkeys(task for task, _ in cell.arms)
        others = {task for task, model in self.found if self.mean((task, model), cell.score)}
        shared = f" ({next(iter(tasks))})" * (len(tasks) == 1 and len(others) > 1)
        means = [
            f"{model}{f' ({task})' * (len(tasks) > 1)} "
            f"{self.mean((task, model), cell.score) or 'not run yet'}"
            for task, model in cell.arms
        ]
        return f"{heading}{shared}: {'; '.join(means)}"


def anchor(heading: str) -> str:
    """That GitHub gives a heading.

    >>> anchor("Translation, Chinese into English")
    'translation-chinese-into-english'
    """
    return "".join(c for c in heading.lower() if c.isalnum() or c in " -").replace(" ", "-")


def counted(verdicts: Iterable[Verdict]) -> str:
    """How many of each answer, such as "3 yes, 1 not decided"."""
    of = collections.Counter(verdict.answer for verdict in verdicts)
    return ", ".join(f"{of[word]} {word}" for word in ("yes", "no", "not decided") if of[word])


def section(study: Study, committed: pathlib.Path) -> Section:
    """What the committed results say of a study."""
    results = ResultsFile(committed / f"{study.name}.json", study, study.full)
    found = tuple(verdicts.decide(study, study.full, results, q) for q in study.questions)
    header = ("task", "model", *(heading for heading, *_ in study.scores.values()))
    paper = bool(study.figures)
    header += ("in the paper",) * paper + ("seeds",) + ("rate",) * bool(study.full.rates)
    picture = f"{study.name}.png"
    result = Section(
        study,
        found,
        header,
        (),
        progress(study, results),
        verdicts.time(verdicts.seconds_left(study, every_run(study, study.full, results), results)),
        sum(entry["seconds"] for entry in results.entries),
        picture if (committed / picture).exists() else None,
        _drawings(study, committed),
        {arm: runs for arm, runs in compared(study, study.full, results).items() if runs},
    )
    rows = []
    for arm, runs in result.found.items():
        cells = [*arm, *(result.mean(arm, score) for score in study.scores)]
        cells += [study.figures.get(arm, "")] * paper + [str(len(runs))]
        rows.append((*cells, *[f"{next(iter(runs.values()))['rate']:g}"] * bool(study.full.rates)))
    return dataclasses.replace(result, rows=tuple(rows))


def _drawings(study: Study, committed: pathlib.Path) -> tuple[str, str] | None:
    name, work = drawings_of(study), study.work
    if not isinstance(work, Training) or work.drawings is None or not (committed / name).exists():
        return None
    return name, work.drawings.caption


def drawings_of(study: Study) -> str:
    """The name of the file with what the models of a study drew."""
    return f"{study.name}_drawings.png"


def progress(study: Study, results: ResultsFile) -> str:
    """How many of the runs have ended, what they took, and why they ended."""
    done = [e for e in results.entries if not results.goes_on(e)]
    going = len(results.entries) - len(done)
    runs = every_run(study, study.full, results)
    left = sum(results.latest(run) is None for run in runs)
    said = f"{len(done)} of {len(runs)} runs have ended"
    whole = [e for e in done if not e.get("trial")]
    if whole:
        said += f", after {np.mean([e['seconds'] for e in whole]):.0f} s in the mean"
    if going:
        said += f"; {going} to go on, which a lower bound on rounds cut off, for at most an hour "
        said += "of two cores each"
    if left > 0:
        seconds = verdicts.seconds_left(study, runs, results)
        said += f"; {left} to begin, for some {verdicts.time(seconds)}"
    for ended, bound in verdicts.BOUNDS.items():
        count = sum(e.get("ended") == ended for e in whole)
        if count and study.full.rounds > 1:
            said += f"; {count} ended by {bound}, before validation stopped improving"
    if study.full.rounds > 1:
        said += f". A run ends {study.full.patience} rounds after its best validation"
        if isinstance(study.work, Training) and study.work.learned is not None:
            said += ", once it has learned"
    if study.full.trial:
        assert isinstance(study.work, Training)
        by = f"least {study.work.chosen}" if study.work.chosen else "best validation"
        said += (
            f". The learning rate with the {by} after {study.full.trial} rounds "
            "alone goes on; trials count among the runs"
        )
    said += _at_the_edge(study, results)
    if study.full.seeds == 1:
        said += ". A run is long, so that there is one seed, and intervals come from resampling "
        said += "the test set: what another seed would change they do not tell"
    return f"{said}."


def _at_the_edge(study: Study, results: ResultsFile) -> str:
    """Where the best of the learning rates has none tried on its other side."""
    rates = sorted(study.full.rates)
    found = compared(study, study.full, results).values() if len(rates) > 1 else ()
    chosen = [next(iter(runs.values()))["rate"] for runs in found if runs]
    said = ""
    for k, word, other in ((0, "smallest", "smaller"), (-1, "largest", "larger")):
        if count := sum(rate == rates[k] for rate in chosen):
            said += f". In {count} of {len(chosen)} rows the {word} rate was the best: a {other} "
            said += "one might be better"
    return said


def page(studies: Mapping[str, Study], committed: pathlib.Path) -> str:
    """The page as Markdown.

    Args:
        studies: by name, in the order of the page.
        committed: folder of the results.
    """
    sections = {name: section(study, committed) for name, study in studies.items()}
    found = [verdict for section in sections.values() for verdict in section.verdicts]
    return (
        _environment()
        .get_template("page")
        .render(
            claims={n: Claim(cell, _asked(n, sections.values())) for n, cell in CLAIMS.items()},
            in_short=IN_SHORT,
            beside=BESIDE,
            figures=sorted(
                (s for s in sections.values() if s.study.figure),
                key=lambda section: section.study.figure.number,
            ),
            anchor=anchor,
            sections=sections,
            hours=round(sum(section.seconds for section in sections.values()) / 3600),
            asked=len(found),
            decided=sum(verdict.holds is not None for verdict in found),
        )
    )


def _asked(
    claim: int, sections: Iterable[Section]
) -> tuple[tuple[Section, tuple[Verdict, ...]], ...]:
    found = ((s, tuple(v for v in s.verdicts if v.question.claim == claim)) for s in sections)
    return tuple((section, verdicts) for section, verdicts in found if verdicts)


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.DictLoader({"page": TEMPLATE.read_text(encoding="utf-8")}),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
