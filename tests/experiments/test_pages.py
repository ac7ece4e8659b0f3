"""The committed pages agree with the committed results."""

import dataclasses
import re

import pytest

from experiments import __main__ as experiments
from experiments import pages
from experiments.claims import CLAIMS, TOPICS
from experiments.harness.results_file import ResultsFile, key_of
from experiments.harness.runs import every_run
from experiments.harness.study import Run
from experiments.harness.verdicts import Verdict
from tests.experiments import toy_study

FOLDER = experiments.ROOT / "docs" / "experiments"
ALL_STUDIES = pytest.mark.parametrize(
    "study", experiments.STUDIES.values(), ids=experiments.STUDIES
)


@pytest.fixture(scope="module")
def found():
    return {
        name: pages.study_page(study, experiments.RESULTS)
        for name, study in experiments.STUDIES.items()
    }


def test_the_overview_agrees_with_the_results(found):
    written = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert pages.render_overview(found) == written


@ALL_STUDIES
def test_the_page_of_a_study_agrees_with_the_results(study, found):
    written = (FOLDER / f"{study.name}.md").read_text(encoding="utf-8")
    assert pages.render_study_page(found[study.name]) == written


def test_the_overview_has_at_most_1500_words():
    assert len((FOLDER / "index.md").read_text(encoding="utf-8").split()) <= 1500


def test_every_link_and_picture_of_the_pages_exists():
    for page in FOLDER.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), (page.name, target)


def test_every_page_of_a_study_belongs_to_a_study():
    assert {path.stem for path in FOLDER.glob("*.md")} == {"index", "method", *experiments.STUDIES}


def test_tables_have_at_most_six_columns():
    for page in FOLDER.glob("*.md"):
        for line in page.read_text(encoding="utf-8").splitlines():
            assert not line.startswith("|") or line.count("|") <= 7, (page.name, line)


def test_every_claim_has_questions_and_open_questions_name_the_missing_runs(found):
    verdicts = [verdict for page in found.values() for verdict in page.verdicts]
    assert {verdict.question.claim for verdict in verdicts} == set(CLAIMS)
    for verdict in verdicts:
        assert (verdict.holds is None) == ("would decide" in verdict.missing)


@pytest.mark.parametrize("topic", TOPICS, ids=[topic.title for topic in TOPICS])
def test_the_conclusion_of_a_topic_was_written_for_these_answers(topic, found):
    answers = [pages.find_verdict(finding, found).answer for finding in topic.findings]
    counts = (f"{answers.count(a)} {a}" for a in pages.ANSWERS if a in answers)
    assert ", ".join(counts) == topic.answers


@ALL_STUDIES
def test_a_study_lists_its_differences_from_the_paper_and_compares_its_own_arms(study):
    assert study.question.endswith("?")
    assert study.paper
    assert study.differences.startswith(("Smaller: ", "Nothing is smaller"))
    names = {(arm.task, arm.model) for arm in study.arms}
    assert len(names) == len(study.arms)
    for question in study.questions:
        assert {*question.plus, *question.minus} <= names
    for (task, score), values in study.in_paper.items():
        assert score in study.scores
        assert {(task, model) for model in values} <= names


@ALL_STUDIES
def test_the_results_have_only_runs_of_the_study(study):
    results = ResultsFile(experiments.RESULTS / f"{study.name}.json", study, study.full)
    keys = [key_of(run) for run in every_run(study, study.full, results)]
    for entry in results.entries:
        assert {name: entry.get(name, False) for name in keys[0]} in keys


def test_one_study_runs_by_name_and_the_pages_are_written(found, monkeypatch, tmp_path):
    ran = []
    # The statistics of all studies take seconds.
    monkeypatch.setattr(pages, "study_page", lambda study, folder: found[study.name])
    monkeypatch.setattr(experiments, "run_study", lambda study, *_: ran.append(study.name))
    monkeypatch.setattr(experiments.plots, "draw_curves", lambda *_: None)
    monkeypatch.setattr(experiments.plots, "draw_samples", lambda *_: None)
    monkeypatch.setattr(experiments.learning_curves, "draw", lambda *_: None)
    monkeypatch.setattr(experiments, "ROOT", tmp_path)
    assert experiments.main(["--study", "scales"]) == 0
    assert experiments.main(["--page"]) == 0
    assert ran == ["scales"]
    assert (tmp_path / "docs" / "experiments" / "index.md").is_file()
    assert (tmp_path / "docs" / "experiments" / "scales.md").is_file()


def test_a_finding_whose_statement_is_ambiguous_or_missing_is_refused(found):
    finding = TOPICS[0].findings[0]
    for statement in ("better", "no such statement"):
        with pytest.raises(ValueError, match="unpack"):
            pages.find_verdict(dataclasses.replace(finding, statement=statement), found)


def filled(tmp_path, size, error=lambda arm, rate: 1.0, **changes):
    """Return the toy study with results of every first run."""
    study = dataclasses.replace(toy_study.STUDY, full=size, **changes)
    results = ResultsFile(tmp_path / "made.json", study, size)
    for arm in study.arms:
        for rate in size.rates:
            results.add(Run(arm, rate, 0), toy_study.entry(error(arm, rate)))
    return study, results


def test_the_page_reports_whether_the_largest_learning_rate_was_the_best(tmp_path):
    size = dataclasses.replace(toy_study.SIZE, seeds=1, rates=(1e-3, 3e-3, 1e-2))
    best = {"none": 3e-3, "BN": 1e-2}
    study, results = filled(tmp_path, size, lambda arm, rate: 1.0 + abs(rate - best[arm.model]))
    text = pages.describe_runs(study, results)
    assert "The largest rate was the best in 1 of 2 cases" in text
    assert "smallest" not in text


def test_the_page_describes_the_runs(tmp_path):
    size = dataclasses.replace(toy_study.SIZE, seeds=2, rates=(1e-3,))
    study, results = filled(tmp_path, size)
    results.add(Run(study.arms[0], 1e-3, 1), toy_study.entry(1.0) | {"ended": "hour"})
    assert pages.describe_runs(study, results) == (
        "3 of 4 runs have ended, after 60 s on average. Each model has 2 seeds. 1 run was stopped "
        "by the limit of one hour on two cores. A run stops 2 rounds after its best validation "
        "score."
    )


def test_few_models_are_the_columns_of_the_table(tmp_path):
    size = dataclasses.replace(toy_study.SIZE, seeds=1, rates=(1e-3,))
    study, results = filled(tmp_path, size, in_paper={("line", "error"): {"BN": "0.7"}})
    assert pages.results_table(study, results) == (
        (
            ("score", "none", "BN"),
            ("error", "1.000", "1.000"),
            ("error: paper", "", "0.7"),
            ("learning rate", "0.001", "0.001"),
        ),
        1,
    )


def test_many_models_are_the_rows_of_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "MAX_MODEL_COLUMNS", 1)
    size = dataclasses.replace(toy_study.SIZE, seeds=1, rates=(1e-3,))
    study, results = filled(tmp_path, size)
    assert pages.results_table(study, results) == (
        (
            ("model", "error", "learning rate"),
            ("none", "1.000", "0.001"),
            ("BN", "1.000", "0.001"),
        ),
        1,
    )


def test_the_table_says_how_many_seeds_a_model_has_if_seeds_are_missing(tmp_path):
    size = dataclasses.replace(toy_study.SIZE, seeds=2, rates=(1e-3,))
    table, _ = pages.results_table(*filled(tmp_path, size))
    assert ("seeds", "1", "1") in table


def test_the_mean_of_a_level_covers_the_runs_that_reached_it():
    study = dataclasses.replace(
        toy_study.STUDY,
        work=dataclasses.replace(toy_study.STUDY.work, level=1.5),
        scores={"epochs": ("epochs", 1, 2)},
    )
    entries = [toy_study.entry(error) | {"task": "line"} for error in (1.0, 1.0, 1.9)]
    assert pages.mean_score(study, entries, "epochs") == "0.75, 2 of 3 runs"
    assert pages.mean_score(study, entries[2:], "epochs") == "none, 0 of 1 runs"


def test_answers_of_a_claim_are_counted(found):
    page = found["scales"]
    question = dataclasses.replace(page.verdicts[0].question, claim=99)
    verdicts = tuple(Verdict(question, holds, 1.0, 0.1, 5) for holds in (True, True, None))
    page = dataclasses.replace(page, verdicts=verdicts)
    assert pages.count_answers(99, [page]) == {"yes": 2, "no": 0, "not decided": 1}


def test_each_of_the_papers_six_figures_has_a_page_with_curves(found):
    figures = [page for page in found.values() if page.study.figure]
    assert sorted(page.study.figure.number for page in figures) == [1, 2, 3, 4, 5, 6]
    for page in figures:
        text = pages.render_study_page(page)
        assert f"## Figure {page.study.figure.number} of Ba et al. 2016" in text
        assert f"]({page.study.name}.png)" in text


def test_a_study_without_plots_and_revisions_has_a_shorter_page(tmp_path):
    size = dataclasses.replace(toy_study.SIZE, rates=(1e-3,))
    study, _ = filled(tmp_path, size)
    text = pages.render_study_page(pages.study_page(study, tmp_path))
    assert "![" not in text
    assert "Changes after the first results" not in text
    assert "Figure" not in text
