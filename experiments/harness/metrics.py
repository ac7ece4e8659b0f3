"""Scores of predicted probabilities."""

import numpy as np
import sklearn.metrics

from experiments.harness import sample_scores
from experiments.harness.study import SampleScores, Scores

TINY = 1e-12


def classes(probabilities: np.ndarray, targets: np.ndarray) -> Scores:
    """Return the accuracy and the mean negative log-likelihood in nats.

    Args:
        probabilities: (samples, classes).
        targets: (samples,), the true classes.
    """
    return sample_scores.means(each_class(probabilities, targets))


def each_class(probabilities: np.ndarray, targets: np.ndarray) -> SampleScores:
    """Return whether the class of each sample is right, and its negative log-likelihood."""
    right = probabilities[np.arange(len(targets)), targets]
    return {
        "accuracy": probabilities.argmax(axis=-1) == targets,
        "nll": -np.log(np.maximum(right, TINY)),
    }


def binary(probabilities: np.ndarray, targets: np.ndarray) -> Scores:
    """Return the area under the ROC curve and the log loss in nats; NaN for non-finite predictions.

    Args:
        probabilities: (samples, 1), of class 1.
        targets: (samples,) of 0 and 1.
    """
    found = probabilities[:, 0].astype("float64")
    if not np.isfinite(found).all():
        return dict.fromkeys(("auc", "log_loss"), float("nan"))
    return {
        "auc": float(sklearn.metrics.roc_auc_score(targets, found)),
        "log_loss": float(sklearn.metrics.log_loss(targets, np.clip(found, 1e-7, 1 - 1e-7))),
    }
