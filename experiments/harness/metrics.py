"""Scores of predictions, most by scikit-learn."""

import numpy as np
import sklearn.metrics

from experiments.harness import sample_scores
from experiments.harness.study import SampleScores, Scores

TINY = 1e-12


def classes(probabilities: np.ndarray, targets: np.ndarray) -> Scores:
    """Accuracy, and the mean negative log-likelihood in nats.

    Args:
        probabilities: (samples, classes).
        targets: (samples,), the right classes.
    """
    return sample_scores.means(each_class(probabilities, targets))


def each_class(probabilities: np.ndarray, targets: np.ndarray) -> SampleScores:
    """The same of every sample: whether its class is right, and its negative log-likelihood."""
    right = probabilities[np.arange(len(targets)), targets]
    return {
        "accuracy": probabilities.argmax(axis=-1) == targets,
        "nll": -np.log(np.maximum(right, TINY)),
    }


def binary(probabilities: np.ndarray, targets: np.ndarray) -> Scores:
    """Area under the ROC curve, and the log loss in nats.

    All are NaN for predictions that are not finite.

    Args:
        probabilities: (samples, 1), of the class 1.
        targets: (samples,) of 0 and 1.
    """
    found = probabilities[:, 0].astype("float64")
    if not np.isfinite(found).all():
        return dict.fromkeys(("auc", "log_loss"), float("nan"))
    return {
        "auc": float(sklearn.metrics.roc_auc_score(targets, found)),
        "log_loss": float(sklearn.metrics.log_loss(targets, np.clip(found, 1e-7, 1 - 1e-7))),
    }
