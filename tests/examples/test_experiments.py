"""What the examples measured is kept beside the page, and the page follows from it."""

import json
import os
import re
import types

import pytest

from examples import experiments
from examples.common.tables import Column

DOCS = experiments.ROOT / "docs"


def test_the_page_is_what_the_results_give():
    written = (DOCS / "experiments.md").read_text(encoding="utf-8")
    assert experiments.page(DOCS / "experiments") == written


def test_every_picture_of_the_page_is_there():
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", (DOCS / "experiments.md").read_text("utf-8"))
    assert len(pictures) == len(experiments.EXAMPLES)
    assert all((DOCS / picture).is_file() for picture in pictures)


@pytest.mark.parametrize("name", experiments.EXAMPLES)
def test_results_are_of_the_settings_as_they_are(name):
    content = json.loads((DOCS / "experiments" / f"{name}.json").read_text())
    settings = json.loads(json.dumps(experiments.EXAMPLES[name].PRESETS["small"], default=vars))
    assert (content["preset"], content["settings"]) == ("small", settings)


@pytest.mark.parametrize("name", experiments.EXAMPLES)
def test_every_committed_check_passed(name):
    content = json.loads((DOCS / "experiments" / f"{name}.json").read_text())
    assert all(entry["passed"] for entry in content["entries"].get("checks", []))


def test_what_the_paper_reports_stands_beside_the_same_metric():
    example = types.SimpleNamespace(
        COLUMNS={"accuracy": Column("test accuracy, %", 100), "seconds": Column("training, s")},
        PAPER={("pixels", "LSTM"): "98.9"},
    )
    runs = [
        {"task": "pixels", "model": model, "seed": 0, "accuracy": 0.9, "seconds": 7}
        for model in ("LSTM", "LN-LSTM")
    ]
    header, rows = experiments._beside_the_paper(example, runs)
    assert header == ["task", "model", "test accuracy, %", "in the paper, %", "training, s"]
    assert rows == [["pixels", "LSTM", "90", "98.9", "7"], ["pixels", "LN-LSTM", "90", "", "7"]]


class Example:
    """Writes its results, and says what it found there."""

    def __init__(self, status):
        self.status = status
        self.found = None

    def main(self, argv):
        out = experiments.pathlib.Path(argv[argv.index("--out") + 1])
        results = out / "results.json"
        self.found = results.read_text() if results.exists() else None
        results.write_text("new")
        (out / "curves.png").write_bytes(b"picture")
        return self.status


@pytest.mark.parametrize(("status", "passed"), [(0, True), (1, False)])
def test_results_and_picture_are_kept(tmp_path, monkeypatch, status, passed):
    example = Example(status)
    monkeypatch.setitem(experiments.EXAMPLES, "counting", example)
    committed = tmp_path / "docs" / "experiments"
    assert experiments.run("counting", committed, tmp_path / "build") is passed
    assert example.found is None
    assert (committed / "counting.json").read_text() == "new"
    assert (committed / "counting.png").read_bytes() == b"picture"


def test_what_was_committed_is_not_measured_again(tmp_path, monkeypatch):
    (tmp_path / "counting.json").write_text("committed")
    example = Example(0)
    monkeypatch.setitem(experiments.EXAMPLES, "counting", example)
    experiments.run("counting", tmp_path, tmp_path / "build")
    assert example.found == "committed"


@pytest.mark.parametrize(("later", "found"), [(1, "committed"), (-1, "interrupted")])
def test_the_newer_of_the_two_goes_on(tmp_path, monkeypatch, later, found):
    kept, build = tmp_path / "counting.json", tmp_path / "build" / "counting"
    build.mkdir(parents=True)
    kept.write_text("committed")
    (build / "results.json").write_text("interrupted")
    now = kept.stat().st_mtime
    os.utime(build / "results.json", (now - later, now - later))
    example = Example(0)
    monkeypatch.setitem(experiments.EXAMPLES, "counting", example)
    experiments.run("counting", tmp_path, tmp_path / "build")
    assert example.found == found
