"""The command line of the benchmark, with the measurements of the committed results."""

import pytest

from benchmarks import __main__ as command
from benchmarks import settings, suites
from benchmarks.results import Results
from tests.benchmarks.test_published import FILES

MEASURED = Results.load(FILES[0])


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    """Replace the suites by their measurements, because real ones take minutes."""
    for suite in settings.SUITES:
        found = MEASURED.of(suite)
        monkeypatch.setitem(suites.RUN, suite, lambda config, found=found: iter(found))


def run(path, *options):
    assert command.main(["run", "--json", str(path), *options]) == 0
    return Results.load(path)


def test_run_prints_tables_and_writes_every_round(tmp_path, capsys):
    results = run(tmp_path / "results.json")
    for suite in settings.SUITES:
        assert results.of(suite) == MEASURED.of(suite)
    assert results.settings["rounds"] == settings.FULL.rounds
    assert "Goals" in capsys.readouterr().out


def test_a_quick_run_does_not_write_the_file_of_a_full_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.main(["run", "--quick"]) == 0
    assert [str(path) for path in tmp_path.iterdir()] == [str(tmp_path / "build")]


def test_a_run_of_some_suites_keeps_the_other_suites(tmp_path):
    path = tmp_path / "results.json"
    assert not run(path, "--only", "layers").of("eager")
    both = run(path, "--only", "eager,growth")
    assert {m.suite for m in both.measurements} == {"layers", "eager", "growth"}


def test_a_file_with_other_settings_raises(tmp_path):
    path = tmp_path / "results.json"
    run(path, "--only", "layers")
    with pytest.raises(SystemExit, match="other settings"):
        run(path, "--only", "eager", "--rounds", "3")
