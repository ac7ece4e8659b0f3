"""Dropout of the candidate: recurrent dropout without memory loss (Semeniuta et al. 2016)."""

from keras_norm.rnn.core.recurrence import CellWeights
from keras_norm.typing import Tensor

# Name of the mask (batch, units) that multiplies the candidate at a timestep in training. The mask
# has the values 0 and 1 / (1 - rate).
CANDIDATE_MASK = "candidate_mask"


def drop_candidate(g: Tensor, masks: CellWeights) -> Tensor:
    """Multiply g, a candidate or its gradient, by the dropout mask, if there is a mask.

    Args:
        g: (batch, units).
        masks: weights, options and masks of the step by name.
    """
    return g * masks[CANDIDATE_MASK] if CANDIDATE_MASK in masks else g
