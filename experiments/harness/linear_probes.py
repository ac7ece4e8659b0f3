"""What linear models, by scikit-learn, get from the vectors of sentences."""

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
    """Of logistic regression, in cross-validation of ten folds."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return float(cross_val_score(_model(), vectors, classes, cv=folds).mean())


def relatedness(
    training: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]
) -> Scores:
    """Pearson's r, Spearman's rho and the squared error of ratings from 1 to 5 of pairs u, v.

    Logistic regression of |u - v| and u * v tells how probable each whole rating is, and the mean
    is the answer. A rating in between is learned as its two neighbours, weighted so that their mean
    is it (Tai et al. 2015, arXiv 1503.00075, section 4.2).

    Args:
        training: vectors (pairs, 2, units), and ratings (pairs,).
        test: the same.
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
    told = model.predict_proba(features(test[0])) @ model.classes_
    return {
        "r": float(scipy.stats.pearsonr(told, test[1]).statistic),
        "rho": float(scipy.stats.spearmanr(told, test[1]).statistic),
        "mse": float(np.square(told - test[1]).mean()),
    }


def features(vectors: np.ndarray) -> np.ndarray:
    """|u - v| and u * v of pairs (pairs, 2, units)."""
    u, v = vectors[:, 0], vectors[:, 1]
    return np.concatenate([np.abs(u - v), u * v], axis=1)
