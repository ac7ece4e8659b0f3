"""Linear models on sentence vectors, by scikit-learn."""

import numpy as np
import scipy.stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.harness.study import Scores

FOLDS = 10


def _model() -> Pipeline:
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.01, tol=1e-3, max_iter=200))


def accuracy(vectors: np.ndarray, classes: np.ndarray) -> float:
    """Return the accuracy of logistic regression in tenfold cross-validation."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return float(cross_val_score(_model(), vectors, classes, cv=folds).mean())


def relatedness(
    training: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]
) -> Scores:
    """Predict ratings from 1 to 5 for pairs of vectors u, v by logistic regression.

    The features are |u - v| and u * v, and the classes are the whole ratings. The prediction is the
    mean rating. A rating between two whole ratings trains both, with weights whose mean is the
    rating (Tai et al. 2015, arXiv 1503.00075, section 4.2).

    Args:
        training: vectors (pairs, 2, units), and ratings (pairs,).
        test: vectors and ratings of the test pairs.

    Returns:
        Pearson's r, Spearman's rho and the mean squared error.
    """
    vectors, ratings = training
    below = np.clip(np.floor(ratings), 1, 4)
    share = ratings - below
    model = _model()
    model.fit(
        np.tile(features(vectors), (2, 1)),
        np.concatenate([below, below + 1]),
        logisticregression__sample_weight=np.concatenate([1 - share, share]),
    )
    predicted = model.predict_proba(features(test[0])) @ model.classes_
    return {
        "r": float(scipy.stats.pearsonr(predicted, test[1]).statistic),
        "rho": float(scipy.stats.spearmanr(predicted, test[1]).statistic),
        "mse": float(np.square(predicted - test[1]).mean()),
    }


def features(vectors: np.ndarray) -> np.ndarray:
    """Return |u - v| and u * v of pairs (pairs, 2, units)."""
    u, v = vectors[:, 0], vectors[:, 1]
    return np.concatenate([np.abs(u - v), u * v], axis=1)
