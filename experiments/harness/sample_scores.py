"""Scores of single test samples, stored by studies with one seed to resample the test set."""

import base64

import numpy as np
import scipy.stats

from experiments.harness.study import SampleScores, Scores

RESAMPLES = 2000


def means(scores: SampleScores) -> Scores:
    """Return the mean of each score over the samples."""
    return {name: float(np.mean(value, dtype="float64")) for name, value in scores.items()}


def pack(values: np.ndarray) -> str:
    """Encode the values of samples as text: one bit for a boolean, four bytes for a number.

    >>> pack(np.array([True, False, True]))
    '3 bits oA=='
    >>> unpack(pack(np.array([0.5, 2.0])))
    array([0.5, 2. ])
    """
    kind, content = "floats", values.astype("<f4").tobytes()
    if values.dtype == bool:
        kind, content = "bits", np.packbits(values).tobytes()
    return f"{len(values)} {kind} {base64.b64encode(content).decode()}"


def unpack(text: str) -> np.ndarray:
    """Decode the text of `pack` to float64 numbers."""
    count, kind, code = text.split(" ")
    content = base64.b64decode(code)
    if kind == "bits":
        return np.unpackbits(np.frombuffer(content, "uint8"), count=int(count)).astype("float64")
    return np.frombuffer(content, "<f4").astype("float64")


def interval(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Return the mean and the wider side of its percentile bootstrap interval.

    For a paired comparison of two models, pass the difference for each sample.
    """
    low, high = scipy.stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=100,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    mean = float(np.mean(values))
    return mean, float(max(high - mean, mean - low))
