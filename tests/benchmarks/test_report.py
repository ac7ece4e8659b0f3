"""Tables and figure of invented results with known ratios."""

import io
import itertools

import pytest
import rich.console

from benchmarks import plot, report
from benchmarks.goals import goals
from tests.benchmarks import sample_results


def printed(results, width=80):
    text = io.StringIO()
    report.print_tables(results, rich.console.Console(file=text, width=width))
    return text.getvalue()


def test_goals_are_checked_on_geometric_means_and_on_the_worst_ratio():
    found = {goal.name: goal for goal in goals(sample_results.results())}
    assert found["warm training step: LN-LSTM / LSTM"].measured == pytest.approx(0.6)
    assert found["warm training step: LN-LSTM / LSTM"].reached
    assert found["warm training step: LN-LSTM / GEMMs"].measured == pytest.approx(1.25)
    assert found["cold fit: LN-LSTM / LSTM"].measured == pytest.approx(0.6)  # mean of 1.2 and 0.3
    assert found["cold fit: LN-LSTM / LSTM, worst"].measured == pytest.approx(1.2)
    assert not found["cold fit: LN-LSTM / LSTM, worst"].reached
    assert found["cold fit: LN-GRU / GRU"].measured == pytest.approx(1)
    assert found["SavedModel: norm=None / LSTM"].measured == pytest.approx(0.8)


def test_the_terminal_shows_every_suite_in_80_columns():
    text = printed(sample_results.results())
    assert max(map(len, text.splitlines())) <= 80
    for title in (
        "training",
        "inference",
        "Growth",
        "First",
        "Whole fits",
        "served",
        "Eager",
        "layers",
        "TFLite",
        "Memory",
    ):
        assert title in text
    assert "Abacus" in text
    assert "not reached" in text
    assert "0.60 ±0.00" in text


def test_markdown_names_the_machine_and_every_row_has_all_columns():
    text = report.markdown(sample_results.results())
    assert text.startswith("Abacus, 2 cores, 24 GB")
    assert "| whole fit | 0.60 (1.20) | 1.00 | 1.50 | 0.80 | 2.00 |" in text
    assert "| **cold start** ||||||" in text
    rows = itertools.groupby(text.splitlines(), lambda line: line.startswith("|"))
    for lines in (list(lines) for is_table, lines in rows if is_table):
        assert len({line.count("|") for line in lines}) == 1


def test_plot_writes_the_figure(tmp_path):
    plot.plot(sample_results.results(), tmp_path / "docs" / "benchmark.png")
    assert (tmp_path / "docs" / "benchmark.png").read_bytes().startswith(b"\x89PNG")
