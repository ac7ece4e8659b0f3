"""Tables and figure of invented results with known ratios."""

import dataclasses
import io
import itertools

import pytest
import rich.console

from benchmarks import plot, report, tables
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


def test_the_table_of_common_uses_has_every_use_case():
    table = tables.common_uses(sample_results.results())
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["whole fit"] == ("0.60 (1.20)", "1.00", "1.50", "0.80", "2.00")
    assert rows["1,000 x (28, 28)"][0] == "1.20"
    assert rows["999 sentences"][0] == "0.30"
    uses = [row for row in table.rows if len(row) > 1]
    assert len(uses) == 12 + len(sample_results.TASKS)


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


def test_only_the_fastest_matrix_products_are_shown():
    text = printed(sample_results.results())
    assert "GEMMs, columns x2" in text
    assert "GEMMs, rows x1" not in text


def test_a_compilation_in_the_rounds_prints_a_warning():
    clean = sample_results.results()
    compiled = dataclasses.replace(clean.measurements[0], compiled=True)
    dirty = dataclasses.replace(clean, measurements=(compiled, *clean.measurements[1:]))
    assert "compiled in every attempt at recurrent, training, (32, 64" in printed(dirty, width=100)
    assert "compiled in every attempt" in report.markdown(dirty)
    assert "compiled in every attempt" not in printed(clean)


def test_suites_without_results_have_no_tables():
    clean = sample_results.results()
    text = printed(dataclasses.replace(clean, measurements=tuple(clean.of("layers"))))
    assert "Normalization layers" in text
    for title in ("Time /", "Growth", "TFLite", "Memory", "Goals"):
        assert title not in text


def test_markdown_names_the_machine_and_every_row_has_all_columns():
    text = report.markdown(sample_results.results())
    assert text.startswith("Abacus, 2 cores, 24 GB")
    assert "| whole fit | 0.60 (1.20) | 1.00 | 1.50 | 0.80 | 2.00 |" in text
    assert "| **cold start** ||||||" in text
    rows = itertools.groupby(text.splitlines(), lambda line: line.startswith("|"))
    for lines in (list(lines) for is_table, lines in rows if is_table):
        assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (12.34, "12.3 s"),
        (1.0, "1.00 s"),
        (0.99999, "1.00 s"),
        (0.1234, "123 ms"),
        (0.00999, "9.99 ms"),
        (4.2e-4, "420 µs"),
        (3.2e-7, "0.32 µs"),
        (-0.0021, "-2.10 ms"),
    ],
)
def test_durations_have_three_digits(seconds, text):
    assert tables.duration(seconds) == text


def test_plot_writes_the_figure(tmp_path):
    plot.plot(sample_results.results(), tmp_path / "docs" / "benchmark.png")
    assert (tmp_path / "docs" / "benchmark.png").read_bytes().startswith(b"\x89PNG")


def test_the_figure_does_not_need_the_growth_suite(tmp_path):
    results = sample_results.results()
    plot.plot(results.with_suite("growth", []), tmp_path / "benchmark.png")
    assert (tmp_path / "benchmark.png").is_file()


def test_plot_raises_without_use_cases(tmp_path):
    results = sample_results.results()
    only = dataclasses.replace(results, measurements=tuple(results.of("layers")))
    with pytest.raises(ValueError, match="without --only"):
        plot.plot(only, tmp_path / "benchmark.png")
