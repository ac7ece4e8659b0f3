"""The page follows from the results that stand beside it."""

import json
import re

import pytest

from examples import experiments

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
    assert experiments.run("counting", tmp_path, tmp_path / "build") is passed
    assert example.found is None
    assert (tmp_path / "counting.json").read_text() == "new"
    assert (tmp_path / "counting.png").read_bytes() == b"picture"


def test_what_was_committed_is_not_measured_again(tmp_path, monkeypatch):
    (tmp_path / "counting.json").write_text("committed")
    example = Example(0)
    monkeypatch.setitem(experiments.EXAMPLES, "counting", example)
    experiments.run("counting", tmp_path, tmp_path / "build")
    assert example.found == "committed"
