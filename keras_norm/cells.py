"""Classes and functions to write your own recurrent cell; see the guide "Write your own cell"."""

from keras_norm.ops.grouped_norm import GroupedNorm
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.cell_layer import CellLayer
from keras_norm.rnn.core.operations import activate, gate_gradient, interpolate, side_by_side
from keras_norm.rnn.core.recurrence import CANDIDATE, GATE, StepGradients, StepResult, Weights

__all__ = [
    "CANDIDATE",
    "GATE",
    "CellLayer",
    "GroupedNorm",
    "NormCell",
    "StepGradients",
    "StepResult",
    "Weights",
    "activate",
    "gate_gradient",
    "interpolate",
    "side_by_side",
]
