"""The random numbers of a cell: dropout, dropout of the candidate, and zoneout."""

from typing import NamedTuple

import keras
from keras import ops

from keras_norm.ops.moments import statistics_dtype
from keras_norm.rnn.core.candidate_dropout import CANDIDATE_MASK
from keras_norm.typing import Tensor, TensorLike, Tensors


class Masks(NamedTuple):
    """The random masks of a recurrence; at inference `NO_MASKS`.

    Args:
        inputs: dropout masks of the inputs (batch, features), for all timesteps: none, one, or one
            for each gate.
        recurrent: dropout masks of the first state (batch, units): none, one, or one for each gate.
        changes: which units change, bool (time, batch, units), of each state with zoneout.
        step: masks (time, batch, ...) by the names that `forward_step` reads, in the dtype of the
            loop.
    """

    inputs: Tensors
    recurrent: Tensors
    changes: Tensors
    step: dict[str, Tensor]


NO_MASKS = Masks([], [], [], {})


class RandomMasks(keras.Layer):
    """Mixin of a Keras cell that draws the random masks of dropout and zoneout.

    Attributes:
        zoneout: probability that a unit of the output keeps its value at a timestep.
        candidate_dropout: probability that a timestep sets a unit of the candidate to zero; 0 for
            a cell without this argument.
    """

    zoneout: float
    candidate_dropout = 0.0
    units: int
    recurrent_state_sizes: list[int]
    seed_generator: keras.random.SeedGenerator

    def zoneout_rates(self) -> tuple[float, ...]:
        """Return for each state the probability that zoneout keeps the old value of a unit."""
        return (self.zoneout, *[0.0] * (len(self.recurrent_state_sizes) - 1))

    def draw_masks(self, inputs: Tensor, states: Tensors, training: bool) -> Masks:
        """Draw the random masks of a recurrence; at inference return `NO_MASKS`.

        ::

            change ~ Bernoulli(1 - zoneout)        mask ~ Bernoulli(1 - dropout) / (1 - dropout)

        All timesteps share the dropout masks of the inputs and of the first state. All other masks
        are drawn for each timestep.

        Args:
            inputs: (batch, time, features), or (batch, features) for one timestep. The masks of one
                timestep have no axis of time.
            states: the states before the first timestep, each (batch, units).
            training: whether to draw masks.
        """
        if not training:
            return NO_MASKS
        batch, *time = ops.shape(inputs)[:-1]
        first = inputs[:, 0, :] if time else inputs
        dropout = self.get_dropout_mask(first), self.get_recurrent_dropout_mask(states[0])
        of_inputs, of_h = ([] if mask is None else keras.tree.flatten(mask) for mask in dropout)
        changes = [
            self._draw((*time, *ops.shape(state)), rate)
            for rate, state in zip(self.zoneout_rates(), states, strict=False)
            if rate
        ]
        step, rate = {}, self.candidate_dropout
        if rate:
            drawn = self._draw((*time, batch, self.units), rate)
            mask = ops.cast(drawn, statistics_dtype(self.compute_dtype))
            step[CANDIDATE_MASK] = mask * (1.0 / (1.0 - rate))
        return Masks(of_inputs, of_h, changes, step)

    def _draw(self, shape: tuple[TensorLike, ...], rate: float) -> Tensor:
        """Draw bools that are False with the probability `rate`."""
        return keras.random.uniform(shape, seed=self.seed_generator) >= rate
