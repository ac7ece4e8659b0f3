"""Dropout of the candidate: recurrent dropout without memory loss (Semeniuta et al. 2016)."""

from keras import ops

from keras_norm.rnn.core.recurrence import CellWeights
from keras_norm.typing import Tensor

# The option of a cell, and the units that a timestep keeps: bool (batch, units), in training.
CANDIDATE_DROPOUT, KEPT = "candidate_dropout", "kept_candidates"


def drop_candidate(g: Tensor, options: CellWeights) -> Tensor:
    """Set units of a candidate to zero, and divide the others by 1 - rate; in training only.

    The function is linear, so it maps the gradient of its result to the gradient of g.

    Args:
        g: the candidate (batch, units), or a gradient.
        options: options of the cell, with the units that this timestep keeps.
    """
    if KEPT not in options:
        return g
    return ops.where(options[KEPT], g * (1.0 / (1.0 - options[CANDIDATE_DROPOUT])), 0.0)
