"""Tables of the first runs."""

import types

from experiments import short_runs
from experiments.harness.tables import Column


def test_what_the_paper_reports_stands_beside_the_same_metric():
    study = types.SimpleNamespace(
        COLUMNS={"accuracy": Column("test accuracy, %", 100), "seconds": Column("training, s")},
        PAPER={("pixels", "LSTM"): "98.9"},
    )
    runs = [
        {"task": "pixels", "model": model, "seed": 0, "accuracy": 0.9, "seconds": 7}
        for model in ("LSTM", "LN-LSTM")
    ]
    header, rows = short_runs.beside_the_paper(study, runs)
    assert header == ["task", "model", "test accuracy, %", "in the paper, %", "training, s"]
    assert rows == [["pixels", "LSTM", "90", "98.9", "7"], ["pixels", "LN-LSTM", "90", "", "7"]]
