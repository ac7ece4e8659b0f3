"""What an example measured is kept beside the page."""

import os

import pytest

from examples import experiments


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
