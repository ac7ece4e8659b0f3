"""Dropout of the candidate: recurrent dropout without memory loss (Semeniuta et al. 2016)."""

from keras_norm.rnn.core.recurrence import CellWeights
from keras_norm.typing import Tensor

# The name of the mask of a timestep (batch, units) in training: 0, or 1 / (1 - rate).
CANDIDATE_MASK = "candidate_mask"


def drop_candidate(g: Tensor, masks: CellWeights) -> Tensor:
    """Multiply a candidate, or its gradient, by the mask of this timestep; without a mask return g.

    Args:
        g: (batch, units).
        masks: weights, options and masks of the step by name.
    """
    return g * masks[CANDIDATE_MASK] if CANDIDATE_MASK in masks else g
