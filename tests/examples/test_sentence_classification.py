"""The smallest preset, the files as they are published, and sentences as ids."""

import json

import numpy as np

from examples import sentence_classification as example


def test_smoke_trains_exports_and_checks(data, tmp_path, capsys):
    arguments = ["--preset", "smoke", "--data", str(data), "--out", str(tmp_path)]
    assert example.main(arguments) == 0
    entries = json.loads((tmp_path / "results.json").read_text())["entries"]
    assert [run["seed"] for run in entries["runs"]] == [0, 1]
    for run in entries["runs"]:
        cut, whole, share = (
            run[name] for name in ("test_accuracy_cut", "test_accuracy", "test_accuracy_long")
        )
        # Only the longer sentences are read differently.
        longer = run["long"] * (share - run["test_accuracy_long_cut"])
        np.testing.assert_allclose(377 * (whole - cut), longer, atol=1e-6)
    (check,) = entries["checks"]
    assert check["passed"]
    assert (tmp_path / "curves.png").is_file()
    assert list((tmp_path / "logs").glob("*/train/events*"))
    folder = tmp_path / "cr-bn-gru"
    assert (folder / "saved_model" / "1" / "saved_model.pb").is_file()
    assert (folder / "model.tflite").is_file()
    assert (folder / "tokenizer.json").is_file()
    assert "BN-GRU" in capsys.readouterr().out
