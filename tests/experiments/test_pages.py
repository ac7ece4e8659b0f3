"""The committed pages agree with the committed results."""

import pytest

from experiments import __main__ as experiments
from experiments import pages
from experiments.claims import CLAIMS, TOPICS
from experiments.harness.results_file import ResultsFile, key_of
from experiments.harness.runs import every_run

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


def test_every_page_of_a_study_belongs_to_a_study():
    assert {path.stem for path in FOLDER.glob("*.md")} == {"index", "method", *experiments.STUDIES}


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
