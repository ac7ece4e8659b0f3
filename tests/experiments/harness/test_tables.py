"""A table of runs."""

from experiments.harness import tables

COLUMNS = {
    "test_accuracy": tables.Column("test accuracy, %", 100, 1),
    "seconds": tables.Column("training, s"),
}


def runs(*accuracies, task="TREC", model="GRU"):
    return [
        {"task": task, "model": model, "seed": seed, "test_accuracy": accuracy, "seconds": 3.0}
        for seed, accuracy in enumerate(accuracies)
    ]


def test_a_row_has_the_spread_over_seeds_in_the_unit_of_its_heading():
    assert tables.header(COLUMNS) == ["task", "model", "test accuracy, %", "training, s"]
    assert tables.rows(runs(0.5, 0.6), COLUMNS) == [["TREC", "GRU", "55.0 ± 63.5", "3 ± 0"]]


def test_every_task_and_model_has_a_row():
    several = [*runs(0.5), *runs(0.6, model="LN-GRU"), *runs(0.7, task="MR")]
    assert [row[:3] for row in tables.rows(several, COLUMNS)] == [
        ["TREC", "GRU", "50.0"],
        ["TREC", "LN-GRU", "60.0"],
        ["MR", "GRU", "70.0"],
    ]


def test_what_was_not_measured_is_empty():
    assert tables.rows(runs(None), COLUMNS) == [["TREC", "GRU", "", "3"]]


def test_a_unit_in_brackets_is_printed(capsys):
    tables.show("Times", ["model", "time [s]"], [["GRU", "3"]])
    assert "time [s]" in capsys.readouterr().out


def test_figures_stand_to_the_right_also_below_an_empty_cell(capsys):
    tables.show("", ["model", "accuracy"], [["GRU", ""], ["LN-GRU", "3"]])
    assert "       3 │" in capsys.readouterr().out
