"""Zoneout of a cell: units of a state that keep the value of the previous timestep."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_norm.rnn.core.zoneout import Changes, draw_changes
from keras_norm.typing import TensorLike, Tensors


class Zoneout:
    """Mixin of a cell that draws which units of its states change.

    Attributes:
        zoneout: probability that a unit of the output keeps its value at a timestep.
    """

    zoneout: float
    recurrent_state_sizes: list[int]
    seed_generator: keras.random.SeedGenerator

    def zoneout_rates(self) -> tuple[float, ...]:
        """Return the probability of each state that a unit keeps its value at a timestep."""
        return (self.zoneout, *[0.0] * (len(self.recurrent_state_sizes) - 1))

    def draw_changes(
        self, time: Sequence[TensorLike], states: Tensors, training: bool
    ) -> list[Changes]:
        """Draw which units of each state change; without zoneout, return an empty list.

        Args:
            time: the number of timesteps, or nothing for one timestep.
            states: the states, each (batch, units).
            training: whether to draw numbers.
        """
        rates = self.zoneout_rates()
        if not any(rates):
            return []
        shapes = [(*time, *ops.shape(state)) for state in states]
        return draw_changes(rates, shapes, training, self.seed_generator)
