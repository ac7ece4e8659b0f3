"""Scores of every test sample, which a study of one seed keeps: its test set is resampled."""

import base64

import numpy as np
import scipy.stats

from experiments.harness.study import Figures, Scores

RESAMPLED = 2000  # times


def means(figures: Figures) -> Scores:
    """The scores, from those of every sample."""
    return {name: float(np.mean(value, dtype="float64")) for name, value in figures.items()}


def packed(values: np.ndarray) -> str:
    """Values of samples as text: a bit each for what is true or false, else four bytes.

    >>> packed(np.array([True, False, True]))
    '3 bits oA=='
    >>> unpacked(packed(np.array([0.5, 2.0])))
    array([0.5, 2. ])
    """
    kind, content = "floats", values.astype("<f4").tobytes()
    if values.dtype == bool:
        kind, content = "bits", np.packbits(values).tobytes()
    return f"{len(values)} {kind} {base64.b64encode(content).decode()}"


def unpacked(text: str) -> np.ndarray:
    """What was packed, as numbers."""
    count, kind, code = text.split(" ")
    content = base64.b64decode(code)
    if kind == "bits":
        return np.unpackbits(np.frombuffer(content, "uint8"), count=int(count)).astype("float64")
    return np.frombuffer(content, "<f4").astype("float64")


def interval(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """The mean, and the wider side of its interval by the percentiles of resampled means.

    Values that are differences of two models on the same samples make it a paired one.
    """
    low, high = scipy.stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLED,
        batch=100,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    mean = float(np.mean(values))
    return mean, float(max(high - mean, mean - low))
