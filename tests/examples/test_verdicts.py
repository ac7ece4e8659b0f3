"""A verdict follows from the figures, whichever they are."""

import pytest

from examples import verdicts


def sentences(**accuracies):
    """Results of questions: accuracies of a model by batch size, or by whether they were cut."""
    return {"sentence_classification": {"entries": {"runs": list(accuracies["runs"])}}}


def batch_runs(spread=0.002, **accuracies):
    """Three runs of every model at batch sizes 64, 2 and 1; the plain GRU has 0.8."""
    models = {"GRU": (0.8, 0.8, 0.8), **accuracies}
    return [
        {
            "task": f"TREC, batch {size}",
            "model": model,
            "seed": seed,
            # The plain GRU's seeds go the other way, so that differences vary.
            "test_accuracy": accuracy + (seed - 1) * (-spread if model == "GRU" else spread),
        }
        for model, by_batch in models.items()
        for size, accuracy in zip((64, 2, 1), by_batch, strict=False)
        for seed in range(3)
    ]


@pytest.mark.parametrize(
    ("layer", "batch", "parts"),
    [
        ((0.86, 0.8, 0.85), (0.85, 0.6), [True, True]),
        ((0.86, 0.8, 0.85), (0.85, 0.85), [False, True]),
        ((0.86, 0.8, 0.6), (0.85, 0.6), [True, False]),
        ((0.86, 0.8, 0.6), (0.85, 0.85), [False, False]),
    ],
)
def test_batchnorm_suffers_at_small_batches_and_layernorm_works(layer, batch, parts):
    runs = batch_runs(**{"LN-GRU": layer, "BN-GRU": batch})
    verdict = verdicts.small_batches(sentences(runs=runs))
    assert list(verdict.parts.values()) == parts
    assert f"BN-GRU 85.0 ± 0.5 at 64, {100 * batch[1]:.1f} ± 0.5 at 2." in verdict.because
    assert f"the LN-GRU has {100 * (layer[2] - 0.8):.1f} ± 1.0." in verdict.because


def test_a_difference_within_its_interval_decides_nothing():
    """The BN-GRU's own seeds vary alike at every batch size, so that its loss does not."""
    runs = batch_runs(spread=0.1, **{"LN-GRU": (0.86, 0.8, 0.85), "BN-GRU": (0.85, 0.8)})
    assert list(verdicts.small_batches(sentences(runs=runs)).parts.values()) == [True, None]


def long_runs(**gains):
    return [
        {
            "task": task,
            "model": model,
            "seed": seed,
            "test_accuracy_long": 0.8 + gain + (0.001 if task == "MR" else 0),
            "test_accuracy_long_cut": 0.8,
        }
        for task in ("MR", "CR")
        for model, gain in gains.items()
        for seed in (0, 1)
    ]


@pytest.mark.parametrize(
    ("layer", "batch", "parts"),
    [
        (0.03, -0.01, [True, True]),
        (0.03, 0.03, [False, True]),
        (-0.05, -0.1, [True, False]),
        (-0.05, -0.05, [False, False]),
    ],
)
def test_longer_sentences_cost_batchnorm_and_not_layernorm(layer, batch, parts):
    gains = {"LN-GRU": layer, "BN-GRU": batch}
    verdict = verdicts.longer_sequences(sentences(runs=long_runs(**gains)))
    assert list(verdict.parts.values()) == parts


def test_datasets_without_long_sentences_do_not_count():
    runs = long_runs(**{"LN-GRU": 0.03, "BN-GRU": -0.01})
    short = {"task": "MPQA", "seed": 0, "test_accuracy_long": None}
    runs += [{**short, "model": model} for model in ("LN-GRU", "BN-GRU")]
    assert "over 2 datasets" in verdicts.longer_sequences(sentences(runs=runs)).because


def recurrence_runs(sums, slope):
    """A recurrence of 4 steps whose last summed input is `sums` times an early one."""
    gradients = [slope**3, slope**2, slope, 1.0]
    one = {"seed": 0, "gradients": gradients}
    return [
        {"task": "gain 2", "model": "SimpleRNN", "summed_inputs": [1, 1, 10, 100], **one},
        {"task": "gain 2", "model": "LN-SimpleRNN", "summed_inputs": [1, 1, 1, sums], **one},
    ]


@pytest.mark.parametrize(
    ("sums", "slope", "parts"),
    [
        (1, 1.0, [True, True]),
        (1, 0.7, [True, False]),
        (50, 1.0, [False, True]),
        (50, 0.7, [False, False]),
    ],
)
def test_layernorm_holds_summed_inputs_and_gradients(sums, slope, parts):
    entries = {"recurrence": recurrence_runs(sums, slope)}
    assert list(verdicts.recurrences({"claims": {"entries": entries}}).parts.values()) == parts


def mode_results(layer, batch):
    gaps = [{"model": "LN-LSTM", "gap": 0.0}, {"model": "BN-LSTM", "gap": 0.1}]
    checks = [
        {"task": "TREC", "model": "LN-GRU", "train_inference_gap": layer},
        {"task": "TREC", "model": "BN-GRU", "train_inference_gap": batch},
        {"task": "in order", "model": "LN-LSTM", "train_inference_gap": 1.0},
        {"task": "TREC", "model": "LN-LSTM", "train_inference_gap": None},
    ]
    trained = ("sequential_mnist", "character_model", "sentence_classification")
    return {
        "claims": {"entries": {"mode_gap": gaps}},
        **{name: {"entries": {"checks": checks}} for name in trained},
    }


@pytest.mark.parametrize(
    ("layer", "batch", "parts"),
    [
        (1e-7, 0.1, [True, True]),
        (1e-7, 1e-7, [True, False]),
        (0.1, 0.1, [False, True]),
        (0.1, 1e-7, [False, False]),
    ],
)
def test_layernorm_is_the_same_in_both_modes_and_batchnorm_is_not(layer, batch, parts):
    assert list(verdicts.modes(mode_results(layer, batch)).parts.values()) == parts
