"""Initializer of the bias of a normalized cell: random values for the candidate gate."""

import keras
from keras import ops

from keras_norm.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_norm")
class CandidateNormal(keras.initializers.RandomNormal):
    """Initialize the candidate gate's bias from a normal distribution, and other biases to 0.

    ::

        b_candidate ~ N(mean, stddev^2)

    With zero biases, inputs of zero keep the states at zero. There a norm divides by sqrt(epsilon),
    and its gradient overflows. The default `stddev` of 1 is the deviation of a kernel norm's
    output. The states and the slope of tanh then start as in the middle of a sequence. The page
    "Zeros at the start" of the documentation has the measurements.

    Args:
        mean: mean of the distribution.
        stddev: standard deviation of the distribution.
        seed: seed of the random numbers. With None, `keras.utils.set_random_seed` makes them
            reproducible.
    """

    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None) -> None:
        super().__init__(mean, stddev, seed)

    def for_cell(self, units: int, gate: int) -> "CandidateNormal":
        """Return a copy of the initializer for a cell with `units` and the candidate gate `gate`.

        Args:
            units: size of the cell's state.
            gate: index of the candidate in a list of all gates: -1 for the last gate, or -2.
        """
        copy: CandidateNormal = self.clone()
        copy.units, copy.gate = units, gate
        return copy

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        """Create a bias that is random for the candidate gate and 0 for the other gates.

        The bias may have only the last gates of the cell, so gates are counted from the end.
        """
        gates = ops.arange(shape[-1]) // self.units - shape[-1] // self.units
        return ops.where(gates == self.gate, super().__call__(shape, dtype), 0.0)
