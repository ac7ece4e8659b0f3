"""How a normalized recurrence starts."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_norm")
class CandidateNormal(keras.initializers.RandomNormal):
    """Normal numbers for the candidate's bias, zeros for that of the other gates.

    ::

        b_candidate ~ N(mean, stddev^2)

    With zero biases, inputs of zero keep the states at zero, where a norm divides by sqrt(epsilon)
    and its gradient overflows. A deviation of 1 is what kernel_norm gives any other input: the
    states are then as large, and tanh as flat, as in the middle of a sequence (docs/design.md).

    Args:
        mean: of the numbers.
        stddev: their deviation.
        seed: of the numbers; by default `keras.utils.set_random_seed` makes them reproducible.
    """

    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None) -> None:
        super().__init__(mean, stddev, seed)

    def of(self, units: int, gate: int) -> "CandidateNormal":
        """A copy for a cell of so many units, whose candidate is the gate -1, the last, or -2."""
        copy = self.clone()
        copy.units, copy.gate = units, gate
        return copy

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        """The bias of any number of gates up to the last one."""
        gates = ops.arange(shape[-1]) // self.units - shape[-1] // self.units
        return ops.where(gates == self.gate, super().__call__(shape, dtype), 0.0)
