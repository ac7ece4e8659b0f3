"""What was measured is kept beside the page, and the page follows from it."""

import dataclasses
import re

import pytest

from experiments import __main__ as experiments
from experiments import page
from experiments.claims import BESIDE, CLAIMS, IN_SHORT
from experiments.harness.results_file import ResultsFile, key_of
from experiments.harness.runs import every_run
from experiments.harness.study import Figure, Run
from experiments.harness.verdicts import Verdict
from tests.experiments import toy_study

DOCS = experiments.ROOT / "docs"


def test_the_page_is_what_the_results_give():
    written = (DOCS / "experiments.md").read_text(encoding="utf-8")
    assert page.page(experiments.STUDIES, experiments.RESULTS) == written


def test_every_picture_and_every_heading_of_the_page_is_there():
    written = (DOCS / "experiments.md").read_text("utf-8")
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", written):
        assert (DOCS / picture).is_file()
    headings = [line.lstrip("# ").lower() for line in written.splitlines() if line[:2] == "##"]
    anchors = {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#(.*?)\)", written)) <= anchors


def test_every_claim_is_asked_and_has_an_answer_or_what_would_give_one():
    sections = [page.section(s, experiments.RESULTS) for s in experiments.STUDIES.values()]
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    assert {verdict.question.claim for verdict in verdicts} == set(CLAIMS)
    for verdict in verdicts:
        told = re.search(r"\d seeds would|runs? .*would .* hour|missing, \d", verdict.missing)
        assert (verdict.holds is None) == bool(told)


def test_what_a_claim_comes_to_was_written_of_the_answers_that_it_has():
    sections = [page.section(s, experiments.RESULTS) for s in experiments.STUDIES.values()]
    found = {n: page.Claim(cell, page._asked(n, sections)) for n, cell in CLAIMS.items()}
    assert {n: claim.decided for n, claim in found.items()} == {
        n: short.of for n, short in IN_SHORT.items()
    }


@pytest.mark.parametrize("study", experiments.STUDIES.values(), ids=experiments.STUDIES)
def test_a_study_says_what_the_paper_did_and_what_is_smaller(study):
    assert study.paper
    assert study.otherwise.startswith("Smaller: ")
    names = {(arm.task, arm.model) for arm in study.arms}
    assert len(names) == len(study.arms)
    for question in study.questions:
        assert {*question.plus, *question.minus} <= names


@pytest.mark.parametrize("study", experiments.STUDIES.values(), ids=experiments.STUDIES)
def test_every_run_that_is_kept_is_one_that_its_study_asks_for(study):
    results = ResultsFile(experiments.RESULTS / f"{study.name}.json", study, study.full)
    keys = [key_of(run) for run in every_run(study, study.full, results)]
    for entry in results.entries:
        assert {name: entry.get(name, False) for name in keys[0]} in keys


def test_a_study_is_asked_for_by_name(monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(experiments, "run_study", lambda study, *_: ran.append(study.name))
    monkeypatch.setattr(experiments.pictures, "draw", lambda *_: None)
    monkeypatch.setattr(experiments.pictures, "draw_drawings", lambda *_: None)
    monkeypatch.setattr(experiments, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    assert experiments.main(["--study", "scales"]) == 0
    assert experiments.main(["--page"]) == 0
    assert ran == ["scales"]
    assert (tmp_path / "docs" / "experiments.md").is_file()


def test_a_rate_that_has_none_tried_beyond_it_is_told(tmp_path):
    size = dataclasses.replace(toy_study.SIZE, seeds=1, rates=(1e-3, 3e-3, 1e-2))
    study = dataclasses.replace(toy_study.STUDY, full=size)
    results = ResultsFile(tmp_path / "made.json", study, size)
    for arm in study.arms:
        best = 3e-3 if arm.model == "none" else 1e-2
        for rate in size.rates:
            results.add(Run(arm, rate, 0), toy_study.entry(1.0 + abs(rate - best)))
    count, many = sum(arm.model != "none" for arm in study.arms), len(study.arms)
    said = page.progress(study, results)
    assert f"In {count} of {many} rows the largest rate was the best" in said
    assert "smallest" not in said


def test_a_run_that_is_to_go_on_is_told_and_counts_as_it_is(tmp_path):
    size = dataclasses.replace(toy_study.SIZE, rates=(1e-3,))
    study = dataclasses.replace(toy_study.STUDY, full=size)
    results = ResultsFile(tmp_path / "made.json", study, size)
    for arm, ended in zip(study.arms, ("rounds", "validation"), strict=True):
        for seed in range(size.seeds):
            results.add(Run(arm, 1e-3, seed), toy_study.entry(1.0) | {"ended": ended})
    section = page.section(study, tmp_path)
    assert section.progress == (
        "2 of 4 runs have ended, after 60 s in the mean; 2 to go on, which a lower bound on rounds "
        "cut off, for at most an hour of two cores each. A run ends 2 rounds after its best "
        "validation."
    )
    assert [row[:3] for row in section.rows] == [("line", m, "1.000") for m in ("none", "BN")]
    assert section.verdicts[0].longer == {("line", "none", 1e-3, seed) for seed in range(2)}


def test_verdicts_are_words():
    question = next(iter(experiments.STUDIES.values())).questions[0]
    words = [Verdict(question, holds, 1.0, 0.1, 5).word for holds in (True, False, None)]
    assert words == ["yes", "no", "not decided"]


def verdict(holds, needed=0):
    question = next(iter(experiments.STUDIES.values())).questions[0]
    return Verdict(question, holds, 1.0, 0.1, 5, needed=needed)


@pytest.mark.parametrize(
    ("answers", "word", "counts"),
    [
        ([True, True, None], "yes", "2 yes, 1 not decided"),
        ([False], "no", "1 no"),
        ([False, True], "yes and no", "1 yes, 1 no"),
        ([None], "not decided", "1 not decided"),
    ],
)
def test_a_claim_is_answered_by_what_is_decided_of_it(answers, word, counts):
    section = page.section(experiments.STUDIES["scales"], experiments.RESULTS)
    claim = page.Claim(CLAIMS[1], ((section, tuple(map(verdict, answers))),))
    assert (claim.verdict, claim.answers) == (word, counts)


def test_a_claim_says_how_many_of_its_questions_are_decided_and_what_would_decide_the_others():
    section = page.section(experiments.STUDIES["scales"], experiments.RESULTS)
    seeds = [verdict(True), verdict(None, 33), verdict(None, 12), verdict(None, 2000)]
    assert section.said(seeds) == "1 yes, 3 not decided (12, 33, more than 1,000 seeds)"
    runs = [("line", "BN", 1e-3, seed) for seed in range(3)]
    longer = [
        dataclasses.replace(verdict(None), longer=frozenset(some)) for some in (runs, runs[:2])
    ]
    expected = "1 yes, 3 not decided (33 seeds; longer runs, at most 3 hours)"
    assert section.said([*seeds[:2], *longer]) == expected
    section = dataclasses.replace(section, left="2.0 hours")
    assert section.said([verdict(False), verdict(None)]) == "1 no, 1 not decided (2.0 hours more)"


def test_a_claim_says_where_a_bound_ended_runs():
    section = page.section(experiments.STUDIES["scales"], experiments.RESULTS)
    cut = dataclasses.replace(verdict(True), runs=6, cut=1)
    assert section.said([cut, verdict(False)]) == "1 yes, 1 no; runs cut off"


def test_the_mean_of_a_level_is_that_of_the_runs_that_had_it():
    study = dataclasses.replace(
        toy_study.STUDY,
        work=dataclasses.replace(toy_study.STUDY.work, level=1.5),
        scores={"epochs": ("epochs", 1, 2)},
    )
    section = page.section(experiments.STUDIES["scales"], experiments.RESULTS)
    entries = [toy_study.entry(error) | {"task": "line"} for error in (1.0, 1.0, 1.9)]
    found = {("line", "none"): dict(enumerate(entries)), ("line", "BN"): {0: entries[2]}}
    section = dataclasses.replace(section, study=study, found=found)
    assert section.mean(("line", "none"), "epochs") == "0.75, 2 of 3 runs"
    assert section.mean(("line", "BN"), "epochs") == "none, 0 of 1 runs"


def test_figures_of_a_cell_name_what_differs_between_them():
    section = page.section(experiments.STUDIES["recurrences"], experiments.RESULTS)
    cell = dataclasses.replace(CLAIMS[4], arms=(("gain 1", "RNN"), ("gain 1", "LN-RNN")))
    heading = "change of the gradient, powers of ten"
    assert re.fullmatch(rf"{heading} \(gain 1\): RNN \d.*; LN-RNN \d.*", section.figures(cell))
    cell = dataclasses.replace(cell, arms=(("gain 1", "RNN"), ("gain 2", "RNN")))
    assert re.fullmatch(
        rf"{heading}: RNN \(gain 1\) \d.*; RNN \(gain 2\) \d.*", section.figures(cell)
    )


def test_each_of_the_papers_six_figures_has_its_place_on_the_page():
    studies = [study for study in experiments.STUDIES.values() if study.figure]
    assert sorted(study.figure.number for study in studies) == [1, 2, 3, 4, 5, 6]
    written = (DOCS / "experiments.md").read_text("utf-8")
    for study in studies:
        section = page.section(study, experiments.RESULTS)
        _, _, block = written.partition(f"### {section.figure_heading}\n")
        block, _, _ = block.partition("\n##")
        assert f"](experiments/{study.name}.png)" in block
        models = {model for _, model in section.found}
        for score, told in study.figure.ends.items():
            assert set(told) <= models
            assert f"| {study.scores[score][0]} | here" in block
        assert all(verdict.question.part in block for verdict in section.verdicts)


def test_ends_of_a_figure_stand_below_those_of_the_paper(tmp_path):
    size = dataclasses.replace(toy_study.SIZE, rates=(1e-3,))
    ends = {"error": {"BN": "0.7"}}
    study = dataclasses.replace(toy_study.STUDY, full=size, figure=Figure(1, "", "", "", (), ends))
    results = ResultsFile(tmp_path / "made.json", study, size)
    for arm in study.arms:
        results.add(Run(arm, 1e-3, 0), toy_study.entry(0.5))
    assert page.section(study, tmp_path).ends == [
        ("", "", "none", "BN"),
        ("error", "paper", "", "0.7"),
        ("error", "here", "0.500", "0.500"),
    ]


def test_every_claim_and_every_cell_beside_it_names_figures_that_there_are():
    cells = [*CLAIMS.values(), *(cell for pair in BESIDE.values() for cell in pair)]
    for cell in cells:
        study = experiments.STUDIES[cell.study]
        assert cell.score in study.scores
        assert set(cell.arms) <= {(arm.task, arm.model) for arm in study.arms}
