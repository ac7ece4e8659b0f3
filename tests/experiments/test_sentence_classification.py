"""The smallest preset, and a model that fits the sentences."""

import json

import numpy as np
import pytest

import keras_norm
from experiments import sentence_classification as example
from experiments.harness.command import parse


def test_smoke_trains(data, tmp_path, capsys, monkeypatch):
    # A recurrence of the same kind that is quick to trace; those of the example are built below.
    monkeypatch.setitem(
        example.LAYERS,
        "BN-GRU",
        lambda units, steps, **options: keras_norm.BatchNormSimpleRNN(units, steps, **options),
    )
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
    assert (tmp_path / "curves.png").is_file()
    assert list((tmp_path / "logs").glob("*/train/events*"))
    assert "BN-GRU" in capsys.readouterr().out


@pytest.mark.parametrize("layer", example.LAYERS)
def test_a_model_has_the_words_and_classes_of_its_task(folder, layer):
    asked = parse("", "A.", example.PRESETS, ["--preset", "smoke", "--data", str(folder)])
    task = example.Task("TREC", "TREC", seeds=1, epochs=1)
    corpus = example.corpus_of(asked, task)
    model = example.build(*example.arguments_of(asked.settings, task, corpus, layer))
    ids, _ = corpus.parts["test"]
    np.testing.assert_allclose(np.sum(model(ids), axis=1), np.ones(len(ids)), rtol=1e-5)
    assert model.output_shape == (None, 6)
