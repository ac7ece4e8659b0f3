"""What the measurements say of four claims about normalization, computed from the result files."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from examples.common.results import grouped
from examples.common.tables import half_width, spread
from examples.sequential_mnist import IN_ORDER

Results = Mapping[str, Mapping[str, Any]]

# What a mode may differ by in float32 and still be the same.
ROUNDING = 1e-5

# Percentage points of accuracy that count as a difference, if the interval is beyond them.
POINTS = 2.0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """An answer to a claim.

    Attributes:
        claim: what is claimed.
        parts: whether each part of it holds; None where the figures do not decide.
        because: the figures that say so.
    """

    claim: str
    parts: Mapping[str, bool | None]
    because: str


def all_of(results: Results) -> list[Verdict]:
    """The verdicts.

    Args:
        results: contents of the result file of every example.
    """
    return [modes(results), small_batches(results), longer_sequences(results), recurrences(results)]


def modes(results: Results) -> Verdict:
    """Claim 1."""
    gaps = {e["model"]: e["gap"] for e in results["claims"]["entries"]["mode_gap"]}
    checked = [
        (entry["model"], entry["train_inference_gap"])
        for name in ("sequential_mnist", "character_model", "sentence_classification")
        for entry in results[name]["entries"]["checks"]
        if entry["train_inference_gap"] is not None  # could not be measured
        and entry["task"] != IN_ORDER  # learned with noise, which the gap is measured without
    ]
    layer, batch = (
        [gap for model, gap in checked if model.startswith(norm)] for norm in ("LN-", "BN-")
    )
    same = gaps["LN-LSTM"] == 0 and max(layer) < ROUNDING
    differs = gaps["BN-LSTM"] > ROUNDING and min(batch) > ROUNDING
    return Verdict(
        "LayerNorm computes the same in training and inference; BatchNorm does not.",
        {"LayerNorm does": same, "BatchNorm does not": differs},
        f"On random data the states of an LN-LSTM differ by {gaps['LN-LSTM']:.1g}, those of a "
        f"BN-LSTM by {gaps['BN-LSTM']:.1g}. Of the trained models, dropout and noise off, the "
        f"outputs of those with LayerNorm differ by at most {max(layer):.1g}, of those with "
        f"BatchNorm by {min(batch):.1g} to {max(batch):.1g}.",
    )


def small_batches(results: Results) -> Verdict:
    """Claim 2.

    A small batch leaves more updates to an epoch, so that models are compared within a batch size:
    with the plain GRU.
    """
    runs = grouped(results["sentence_classification"]["entries"]["runs"])
    prefix = "TREC, batch "
    found = {
        model: {
            int(task.removeprefix(prefix)): _accuracies(models[model])
            for task, models in runs.items()
            if task.startswith(prefix) and model in models
        }
        for model in ("GRU", "LN-GRU", "BN-GRU")
    }

    def lead(model: str, batch: int) -> np.ndarray:
        return found[model][batch] - found["GRU"][batch]

    smallest, largest = min(found["BN-GRU"]), max(found["BN-GRU"])
    lost, alone = lead("BN-GRU", largest) - lead("BN-GRU", smallest), lead("LN-GRU", 1)
    own = found["BN-GRU"][largest] - found["BN-GRU"][smallest]
    table = "; ".join(
        f"{model} " + ", ".join(f"{spread(values, 1)} at {b}" for b, values in by_batch.items())
        for model, by_batch in found.items()
    )
    return Verdict(
        "BatchNorm depends on the batch size and suffers at small ones; LayerNorm works at batch "
        "size 1.",
        {
            "BatchNorm suffers": _above(lost, POINTS),
            "LayerNorm works at 1": _above(alone, -POINTS),
        },
        f"Test accuracy in % by batch size, on questions (TREC): {table}. Small "
        "batches make more updates, so the lead over the plain GRU of the same batch size counts: "
        f"from {largest} to {smallest} the BN-GRU loses {spread(lost, 1)} points of it, and "
        f"{spread(own, 1)} of its own accuracy; at 1 the "
        f"LN-GRU has {spread(alone, 1)}. A batch of 1 has no statistics for a BatchNorm.",
    )


def longer_sequences(results: Results) -> Verdict:
    """Claim 3."""
    runs = results["sentence_classification"]["entries"]["runs"]
    gains: dict[str, list[float]] = {}
    for task, models in grouped(runs).items():
        for model, seeds in models.items():
            if "," not in task and seeds[0]["test_accuracy_long"] is not None:
                change = _accuracies(seeds, "test_accuracy_long") - _accuracies(
                    seeds, "test_accuracy_long_cut"
                )
                gains.setdefault(model, []).append(float(change.mean()))
    layer, batch = (np.array(gains[model]) for model in ("LN-GRU", "BN-GRU"))
    table = ", ".join(f"{model} {spread(values, 1)}" for model, values in gains.items())
    return Verdict(
        "Recurrent BatchNorm lacks statistics for test sequences longer than any in training; "
        "LayerNorm needs none.",
        {
            "BatchNorm suffers": _above(layer - batch, POINTS),
            "LayerNorm does not": _above(layer, -POINTS),
        },
        f"Change of the test accuracy, in percentage points, when sentences longer than the 20 "
        f"words of training are read whole and not cut, ± over {len(gains['BN-GRU'])} datasets: "
        f"{table}.",
    )


def recurrences(results: Results) -> Verdict:
    """Claim 4."""
    growth: dict[str, list[float]] = {}
    slopes: dict[str, list[float]] = {}
    for entry in results["claims"]["entries"]["recurrence"]:
        sums, gradients = entry["summed_inputs"], entry["gradients"]
        growth.setdefault(entry["model"], []).append(sums[-1] / sums[1])
        # By step, from the second state on: the first is 0, and LayerNorm divides by sqrt(epsilon).
        slope = (gradients[1] / gradients[-1]) ** (1 / (len(gradients) - 2))
        slopes.setdefault(entry["model"], []).append(slope)
    steps = len(sums)
    holds_sums = max(growth["LN-SimpleRNN"]) < 10 < max(growth["SimpleRNN"])
    holds_gradients = all(0.97 < slope < 1.03 for slope in slopes["LN-SimpleRNN"])

    def listed(values: Sequence[float], form: str) -> str:
        return ", ".join(format(value, form) for value in values)

    gains = ", ".join(
        entry["task"].removeprefix("gain ")
        for entry in results["claims"]["entries"]["recurrence"]
        if entry["model"] == "SimpleRNN"
    )
    return Verdict(
        "Without normalization the summed input of a recurrence grows or shrinks over the steps, "
        "and gradients with it; LayerNorm holds them.",
        {"LayerNorm holds the sums": holds_sums, "and gradients": holds_gradients},
        f"Over {steps} steps of a ReLU recurrence whose matrices have the gains {gains}, the "
        f"summed input changes by a factor of {listed(growth['SimpleRNN'], '.1g')}; with LayerNorm "
        f"of {listed(growth['LN-SimpleRNN'], '.1g')}. A step back changes the gradient by a "
        f"factor of {listed(slopes['SimpleRNN'], '.2f')}; with LayerNorm of "
        f"{listed(slopes['LN-SimpleRNN'], '.2f')}.",
    )


def _accuracies(seeds: Sequence[Mapping[str, Any]], name: str = "test_accuracy") -> np.ndarray:
    """In percent, by seed."""
    return 100 * np.array([run[name] for run in seeds])


def _above(values: np.ndarray, threshold: float) -> bool | None:
    """Whether the 95 % interval of the mean is above a threshold; None where it holds it."""
    distance = float(values.mean()) - threshold
    return distance > 0 if abs(distance) > half_width(values) else None
