"""The states of a cell before the first timestep: zeros, or weights."""

from typing import ClassVar

import keras
from keras import ops

from keras_norm.typing import Shape, Tensor, TensorLike


class InitialStates(keras.Layer):
    """Mixin of cells whose initial states are zeros or, with `learn_initial_state`, weights.

    ::

        h_0 = b, for every sequence        b: (units,), zeros before training

    Attributes:
        STATES: names of the states, each (batch, units); the first state is the output. Empty: the
            states of the Keras cell.
        initial_states: the weights (units,), one for each state; empty without
            `learn_initial_state`, and before the cell is built.
    """

    STATES: ClassVar[tuple[str, ...]] = ()
    learn_initial_state: bool
    recurrent_state_sizes: list[int]
    state_size: int | list[int]
    initial_states: list[keras.Variable] = []  # noqa: RUF012, because no code changes this list

    def state_sizes(self, units: int) -> list[int]:
        """Return the sizes of the states, without the timestep counter."""
        sizes: list[int] = keras.tree.flatten(self.state_size)
        return [units] * len(self.STATES) or sizes

    def build(self, input_shape: Shape) -> None:
        """Create the weights of the Keras cell, then the weights of the initial states."""
        super().build(input_shape)
        if self.learn_initial_state:
            self.initial_states = [
                self.add_weight((units,), "zeros", name=f"initial_state_{k}")
                for k, units in enumerate(self.recurrent_state_sizes)
            ]

    def get_initial_state(self, batch_size: TensorLike | None = None) -> list[Tensor]:
        """Return the initial states: the same for every sequence, zeros by default.

        The counter of a cell with statistics per timestep starts at zero too.
        """
        learned = [
            ops.broadcast_to(ops.cast(state, self.compute_dtype), (batch_size, state.shape[0]))
            for state in self.initial_states
        ]
        sizes = keras.tree.flatten(self.state_size)[len(learned) :]
        return [*learned, *(ops.zeros((batch_size, n), self.compute_dtype) for n in sizes)]
