"""Write docs/experiments/index.md and the page of each study from the committed results."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping

import jinja2
import numpy as np

from experiments.claims import CLAIMS, TOPICS, Finding
from experiments.harness import verdicts
from experiments.harness.results_file import Entry, ResultsFile
from experiments.harness.run_scores import EPOCHS, score_of
from experiments.harness.runs import chosen_runs, every_run
from experiments.harness.study import Study, Training
from experiments.harness.verdicts import Verdict

OVERVIEW, STUDY_PAGE = "overview.md.jinja", "study_page.md.jinja"
MAX_COLUMNS = 6  # of a table
ANSWERS = ("yes", "no", "not decided")


@dataclasses.dataclass(frozen=True)
class Page:
    """The contents of a study's page.

    Attributes:
        study: the study.
        verdicts: the answers to its questions.
        table: rows of the results table; the first row is the header.
        label_columns: number of columns before the numbers.
        runs: description of the finished runs.
        curves: file name of the curves; None without a plot.
        drawings: file name of the models' samples; None without a plot.
    """

    study: Study
    verdicts: tuple[Verdict, ...]
    table: tuple[tuple[str, ...], ...]
    label_columns: int
    runs: str
    curves: str | None
    drawings: str | None


def study_page(study: Study, committed: pathlib.Path) -> Page:
    """Collect the contents of a study's page.

    Args:
        study: the study.
        committed: folder of the results and plots.
    """
    results = ResultsFile(committed / f"{study.name}.json", study, study.full)
    table, label_columns = results_table(study, results)
    curves, drawings = (
        name if (committed / name).exists() else None
        for name in (f"{study.name}.png", drawings_name(study))
    )
    return Page(
        study,
        tuple(verdicts.decide(study, study.full, results, q) for q in study.questions),
        table,
        label_columns,
        describe_runs(study, results),
        curves,
        drawings,
    )


def drawings_name(study: Study) -> str:
    """Return the file name of the plot of a study's samples."""
    return f"{study.name}_drawings.png"


def results_table(study: Study, results: ResultsFile) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Tabulate the mean scores over the seeds, with 95 % intervals.

    Few models are columns, with a row for each score. Many models are rows, with a column for each
    score.

    Returns:
        The rows, with the header first, and the number of label columns.
    """
    cells: dict[tuple[str, str], dict[str, str]] = {}  # by (task, score) and model
    for (task, model), runs in chosen_runs(study, study.full, results).items():
        for name, (heading, *_) in study.scores.items():
            cells.setdefault((task, heading), {})[model] = mean_score(study, runs.values(), name)
            if in_paper := study.in_paper.get((task, name)):
                cells.setdefault((task, f"{heading}: paper"), {})[model] = in_paper.get(model, "")
        if len(runs) < study.full.seeds:
            cells.setdefault((task, "seeds"), {})[model] = str(len(runs))
        if study.full.rates and runs:
            rate = next(iter(runs.values()))["rate"]
            cells.setdefault((task, "learning rate"), {})[model] = f"{rate:g}"
    rows = {key: by_model for key, by_model in cells.items() if any(by_model.values())}
    tasks, scores = (list(dict.fromkeys(names)) for names in zip(*rows, strict=True))
    models = list(dict.fromkeys(arm.model for arm in study.arms))
    several = len(tasks) > 1
    if len(models) + 1 + several <= MAX_COLUMNS:
        header = ("task",) * several + ("score", *models)
        body = [
            (task,) * several + (score, *(by_model.get(model, "") for model in models))
            for (task, score), by_model in rows.items()
        ]
    else:
        header = ("task",) * several + ("model", *scores)
        body = [
            (arm.task,) * several
            + (arm.model, *(rows.get((arm.task, s), {}).get(arm.model, "") for s in scores))
            for arm in study.arms
        ]
    return (header, *body), 1 + several


def mean_score(study: Study, runs: Iterable[Entry], score: str) -> str:
    """Format the mean of a score over the seeds with its interval; empty without a score.

    The mean of `epochs` covers the runs that reached the level, and says how many did.
    """
    _, scale, digits = study.scores[score]
    scores = [score_of(study.work, run, score) for run in runs]
    values = [scale * value for value in scores if value is not None]
    text = format_mean(values, digits) if values else ""
    if score == EPOCHS and len(values) < len(scores):
        return f"{text or 'none'}, {len(values)} of {len(scores)} runs"
    return text


def format_mean(values: list[float], digits: int) -> str:
    """Format the mean over seeds; for three or more, with its 95 % interval by Student's t.

    >>> format_mean([97.0, 98.0, 99.0], 1)
    '98.0 ± 2.5'
    >>> format_mean([97.0, 98.0], 1)
    '97.5'
    """
    mean, half = verdicts.student_interval(values)
    mean = round(mean, digits) + 0.0  # no -0
    return f"{mean:.{digits}f}" + (f" ± {half:.{digits}f}" if len(values) > 2 else "")


def describe_runs(study: Study, results: ResultsFile) -> str:
    """Say how many runs have ended, how long they took, and what stopped them."""
    size, work = study.full, study.work
    runs = every_run(study, size, results)
    ended = [entry for run in runs if (entry := results.find(run))]
    whole = [entry for entry in ended if not entry.get("trial")]
    sentences = [f"{len(ended)} of {len(runs)} runs have ended"]
    if whole:
        seconds = np.mean([entry["seconds"] for entry in whole])
        sentences[0] += f", after {seconds:.0f} s on average"
    sentences.append(f"Each model has {size.seeds} seed{'s' * (size.seeds > 1)}")
    if size.rounds > 1:
        for word, limit in verdicts.LIMITS.items():
            if count := sum(entry.get("ended") == word for entry in whole):
                runs_were = "run was" if count == 1 else "runs were"
                sentences.append(f"{count} {runs_were} stopped by {limit}")
        stop = f"A run stops {size.patience} rounds after its best validation score"
        learned = isinstance(work, Training) and work.learned is not None
        sentences.append(stop + ", but not before the model has learned" * learned)
    if isinstance(work, Training) and len(size.rates) > 1:
        score = f"lowest {work.chosen}" if work.chosen else "best validation score"
        when = f"after {size.trial} rounds" if size.trial else "after whole runs"
        rates = ", ".join(f"{rate:g}" for rate in size.rates)
        sentences.append(f"The learning rate ({rates}) is the one with the {score} {when}")
    sentences += _rates_at_the_edge(study, results)
    if size.seeds == 1:
        sentences.append(
            "The interval comes from resampling the test set, because one run is long. It does "
            "not cover the variation between seeds"
        )
    return ". ".join(sentences) + "."


def _rates_at_the_edge(study: Study, results: ResultsFile) -> list[str]:
    """Say for how many models the smallest or the largest learning rate was the best."""
    rates = sorted(study.full.rates)
    if len(rates) < 2:
        return []
    found = chosen_runs(study, study.full, results).values()
    chosen = [next(iter(runs.values()))["rate"] for runs in found if runs]
    sentences = []
    for index, edge, beyond in ((0, "smallest", "smaller"), (-1, "largest", "larger")):
        if count := chosen.count(rates[index]):
            sentences.append(
                f"The {edge} rate was the best in {count} of {len(chosen)} cases; a {beyond} rate "
                "might be better"
            )
    return sentences


def render_study_page(page: Page) -> str:
    """Render the page of a study as Markdown."""
    return _render(STUDY_PAGE, page=page, study=page.study, capitalized=_capitalized)


def render_overview(pages: Mapping[str, Page]) -> str:
    """Render docs/experiments/index.md as Markdown.

    Args:
        pages: the study pages by name, in the order of the links.
    """

    def verdict(finding: Finding) -> Verdict:
        return find_verdict(finding, pages)

    def link(name: str) -> str:
        return f"[{pages[name].study.title}]({name}.md)"

    def links(claim: int) -> str:
        return ", ".join(
            f"[{name.replace('_', ' ')}]({name}.md)"
            for name, page in pages.items()
            if any(v.question.claim == claim for v in page.verdicts)
        )

    def counts(claim: int) -> list[int]:
        return list(count_answers(claim, pages.values()).values())

    answers = [verdict.answer for page in pages.values() for verdict in page.verdicts]
    figures = [page for page in pages.values() if page.study.figure]
    return _render(
        OVERVIEW,
        pages=pages,
        topics=TOPICS,
        claims=CLAIMS,
        verdict=verdict,
        link=link,
        links=links,
        counts=counts,
        asked=len(answers),
        decided=len(answers) - answers.count("not decided"),
        figures=sorted(figures, key=lambda page: page.study.figure.number),
    )


def find_verdict(finding: Finding, pages: Mapping[str, Page]) -> Verdict:
    """Return the verdict of the statement that contains the text of a finding.

    Raises:
        ValueError: no statement or several statements contain it.
    """
    (found,) = (
        verdict
        for verdict in pages[finding.study].verdicts
        if finding.statement in verdict.question.statement
    )
    return found


def count_answers(claim: int, pages: Iterable[Page]) -> dict[str, int]:
    """Count the answers of a claim's questions: yes, no and not decided."""
    found = collections.Counter(
        verdict.answer
        for page in pages
        for verdict in page.verdicts
        if verdict.question.claim == claim
    )
    return {answer: found[answer] for answer in ANSWERS}


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


def _render(template: str, **values: object) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(values)
