"""The committed results give the published tables, and goals follow from ratios."""

import dataclasses
import pathlib

import pytest

from benchmarks import __main__ as command
from benchmarks import backends, distributed, plot, report, results, settings
from benchmarks.goals import goals
from benchmarks.results import Measurement, Results
from benchmarks.settings import LSTM, REFERENCES
from benchmarks.timing import Spread

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "benchmarks.md"
DISTRIBUTED = ROOT / distributed.FILE
FILES = [ROOT / command.JSON, *ROOT.glob("benchmarks/results_*.json")]


@pytest.fixture(scope="module")
def published():
    return Results.load(FILES[0])


def rows(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_page_has_the_tables_of_the_committed_results(published):
    torch = Results.load(ROOT / "benchmarks" / "results_torch.json")
    tables = [report.markdown(published), report.markdown_rows(backends.table(torch))]
    written = rows(PAGE.read_text())
    for text in tables:
        assert len(rows(text)) > 4
        assert set(rows(text)) <= set(written)
    for result in (published, torch):
        assert f"{result.machine['cores']} cores" in PAGE.read_text()


def test_the_page_of_the_options_has_their_tables():
    tensorflow, jax = (
        Results.load(ROOT / f"benchmarks/results_options{name}.json") for name in ("", "_jax")
    )
    written = rows((PAGE.parent / "option_times.md").read_text())
    found = [*rows(report.markdown(tensorflow)), *rows(report.markdown_rows(backends.table(jax)))]
    assert len(found) > 20
    assert set(found) <= set(written)


@pytest.mark.parametrize("table", distributed.tables(Results.load(DISTRIBUTED)), ids=str)
def test_a_page_has_the_table_of_distributed_trainings(table):
    page = ROOT / "docs" / table.title
    _, _, *written = rows(report.markdown_rows(table))
    assert len(written) > 2
    assert set(written) <= set(rows(page.read_text()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_results_file_is_read_and_written_without_a_change(path, tmp_path):
    Results.load(path).save(tmp_path / "new" / "results.json")
    assert (tmp_path / "new" / "results.json").read_text() == path.read_text()


def test_plot_writes_the_figure(published, tmp_path):
    plot.plot(published, tmp_path / "docs" / "benchmark.png")
    assert (tmp_path / "docs" / "benchmark.png").read_bytes().startswith(b"\x89PNG")


# Three rounds: for every variant, the first round takes twice as long.
SECONDS = {"LN-LSTM": 0.03, "keras LSTM": 0.06, "keras LSTM, jit": 0.05, "GEMMs, rows x1": 0.025}
STEPS = Measurement(
    "recurrent", "training", (1,), {name: [2 * s, s, s] for name, s in SECONDS.items()}
)
FITS = [
    Measurement("cold", str(task), (1,), {"LN-LSTM": [ratio], "keras LSTM": [1.0]})
    for task, ratio in enumerate((1.2, 0.3))
]


def test_goals_are_checked_on_geometric_means_and_on_the_worst_ratio():
    found = {goal.name: goal for goal in goals(Results({}, {}, (STEPS, *FITS)))}
    expected = {
        "warm training step: LN-LSTM / LSTM": (0.6, True),
        "warm training step: LN-LSTM / GEMMs": (1.2, True),
        "cold fit: LN-LSTM / LSTM": (0.6, True),
        "cold fit: LN-LSTM / LSTM, worst": (1.2, False),
    }
    for name, (measured, reached) in expected.items():
        assert found[name].measured == pytest.approx(measured)
        assert found[name].reached is reached


def test_a_reference_is_the_fastest_of_its_variants():
    assert STEPS.fastest(REFERENCES[LSTM]) == "keras LSTM, jit"
    ratio = STEPS.ratio("LN-LSTM", REFERENCES[LSTM])
    assert dataclasses.astuple(ratio) == pytest.approx(dataclasses.astuple(Spread(0.6, 0.6, 0.6)))
    assert STEPS.ratio("LN-LSTM", ("keras GRU",)) is None
    assert STEPS.ratio("BN-LSTM", ("keras LSTM",)) is None


def test_results_continue_only_with_equal_machine_and_settings(published):
    begun = results.begin(dataclasses.asdict(settings.FULL))
    another_day = dataclasses.replace(begun, settings={**begun.settings, "date": "1970-01-01"})
    assert begun.continues(another_day)
    fewer = {**dataclasses.asdict(settings.FULL), "rounds": 3}
    assert not begun.continues(results.begin(fewer))
    assert not begun.continues(dataclasses.replace(begun, machine={"processor": "Abacus"}))
