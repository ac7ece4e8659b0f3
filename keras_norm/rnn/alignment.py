"""Count the timesteps of statistics from the first unmasked timestep of each sequence."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from keras_norm.ops.leading_padding import count_leading_padding, roll_sequences
from keras_norm.rnn.cell import NormCell
from keras_norm.typing import Nest, Tensor, Tensors

# A function that runs a cell: (cell, sequences, states, mask, ...) -> (outputs, ...).
Run = TypeVar("Run", bound=Callable[..., Nest])


def align_sequences(run: Run) -> Run:
    """Decorate a function that runs a cell, such as `loop.run`, so that sequences are aligned.

    ::

        y = roll(run(roll(x, -n)), n)        n: masked timesteps before the first unmasked timestep

    If `Slots.needs_alignment` is True, each sequence enters the loop with its first unmasked
    timestep first: iteration k of the loop is timestep k of every sequence. The n masked timesteps
    come last in the loop. They change no state, so the states and the outputs at unmasked timesteps
    do not depend on n. Sequences without a mask are not aligned.
    """

    @functools.wraps(run)
    def run_aligned(
        cell: NormCell,
        sequences: Tensor,
        states: Tensors,
        mask: Tensor | None,
        training: bool,
        *args: Any,
        resets: Tensor | None = None,
        **kwargs: Any,
    ) -> Nest:
        if resets is not None:
            return run(cell, sequences, states, mask, training, *args, resets=resets, **kwargs)
        if mask is None or not cell.slots.needs_alignment(training):
            return run(cell, sequences, states, mask, training, *args, **kwargs)
        n = count_leading_padding(mask)
        sequences, mask = roll_sequences(sequences, -n), roll_sequences(mask, -n)
        outputs, *others = run(cell, sequences, states, mask, training, *args, **kwargs)
        return None if outputs is None else roll_sequences(outputs, n), *others

    return cast(Run, run_aligned)
