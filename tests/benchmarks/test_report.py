"""Tables and the picture, from results whose ratios are known."""

import dataclasses
import io
import itertools

import pytest
import rich.console

from benchmarks import plot, report, tables
from benchmarks.goals import goals
from tests.benchmarks import made


def printed(results, width=80):
    text = io.StringIO()
    report.print_tables(results, rich.console.Console(file=text, width=width))
    return text.getvalue()


def test_goals_are_geometric_means_and_the_worst():
    found = {goal.what: goal for goal in goals(made.results())}
    assert found["warm training step: LN-LSTM / LSTM"].measured == pytest.approx(0.6)
    assert found["warm training step: LN-LSTM / LSTM"].reached
    assert found["warm training step: LN-LSTM / GEMMs"].measured == pytest.approx(1.25)
    assert found["cold fit: LN-LSTM / LSTM"].measured == pytest.approx(0.6)  # of 1.2 and 0.3
    assert found["cold fit: LN-LSTM / LSTM, worst"].measured == pytest.approx(1.2)
    assert not found["cold fit: LN-LSTM / LSTM, worst"].reached
    assert found["cold fit: LN-GRU / GRU"].measured == pytest.approx(1)
    assert found["SavedModel: norm=None / LSTM"].measured == pytest.approx(0.8)


def test_one_table_has_all_that_a_user_does():
    table = tables.everyday(made.results())
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["whole fit"] == ("0.60 (1.20)", "1.00", "1.50", "0.80", "2.00")
    assert rows["1,000 x (28, 28)"][0] == "1.20"
    assert rows["999 sentences"][0] == "0.30"
    uses = [row for row in table.rows if len(row) > 1]
    assert len(uses) == 12 + len(made.TASKS)


def test_the_terminal_shows_every_suite_in_80_columns():
    text = printed(made.results())
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


def test_only_the_fastest_form_of_the_products_is_shown():
    text = printed(made.results())
    assert "GEMMs, columns x2" in text
    assert "GEMMs, rows x1" not in text


def test_a_compilation_in_the_rounds_is_told():
    clean = made.results()
    compiled = dataclasses.replace(clean.measurements[0], compiled=True)
    dirty = dataclasses.replace(clean, measurements=(compiled, *clean.measurements[1:]))
    assert "compiled in every try at recurrent, training, (32, 64" in printed(dirty, width=100)
    assert "compiled in every try" in report.markdown(dirty)
    assert "compiled in every try" not in printed(clean)


def test_suites_that_were_not_run_have_no_tables():
    clean = made.results()
    text = printed(dataclasses.replace(clean, measurements=tuple(clean.of("layers"))))
    assert "Normalization layers" in text
    for title in ("Time /", "Growth", "TFLite", "Memory", "Goals"):
        assert title not in text


def test_markdown_names_the_machine_and_every_row_has_all_columns():
    text = report.markdown(made.results())
    assert text.startswith("Abacus, 2 cores, 24 GB")
    assert "| (1, 128, 128, 256) | 30.0 ms | 0.60 ±0.00 | 0.30 ±0.00 | 1.25 ±0.00 |" in text
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


def test_the_picture_is_written(tmp_path):
    plot.plot(made.results(), tmp_path / "docs" / "benchmark.png")
    assert (tmp_path / "docs" / "benchmark.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_needs_no_growth(tmp_path):
    results = made.results()
    plot.plot(results.with_suite("growth", []), tmp_path / "benchmark.png")
    assert (tmp_path / "benchmark.png").is_file()


def test_the_picture_of_nothing_that_a_user_does_is_refused(tmp_path):
    results = made.results()
    only = dataclasses.replace(results, measurements=tuple(results.of("layers")))
    with pytest.raises(ValueError, match="run those suites"):
        plot.plot(only, tmp_path / "benchmark.png")
