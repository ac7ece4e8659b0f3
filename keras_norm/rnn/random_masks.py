"""The random numbers of a cell: dropout, dropout of the candidate, and zoneout."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_norm.rnn.core.candidate_dropout import CANDIDATE_MASK
from keras_norm.rnn.core.zoneout import Changes, draw_changes
from keras_norm.typing import Tensor, TensorLike, Tensors


class RandomMasks(keras.Layer):
    """Mixin of a Keras cell that draws dropout masks, and the units of states that change.

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

    def dropout_masks(
        self, inputs: Tensor, h: Tensor, training: bool
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Draw the dropout masks of the inputs (batch, features) and of h, for all timesteps.

        Each of the two lists has no mask, one mask, or one mask per gate.
        """
        if not training:
            return [], []
        drawn = self.get_dropout_mask(inputs), self.get_recurrent_dropout_mask(h)
        of_inputs, of_h = ([] if m is None else keras.tree.flatten(m) for m in drawn)
        return of_inputs, of_h

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

    def draw_step_masks(
        self, sizes: Sequence[TensorLike], dtype: str, training: bool
    ) -> dict[str, Tensor]:
        """Draw what `forward_step` reads by name at each timestep: the masks of the candidate.

        Args:
            sizes: (time, batch), or (batch,) for one timestep.
            dtype: dtype of the masks.
            training: whether to draw masks. At inference the result is empty.

        Returns:
            The mask (*sizes, units) if the cell has `candidate_dropout`.
        """
        rate = self.candidate_dropout
        if not (training and rate):
            return {}
        uniform = keras.random.uniform((*sizes, self.units), seed=self.seed_generator)
        return {CANDIDATE_MASK: ops.cast(uniform >= rate, dtype) * (1.0 / (1.0 - rate))}
