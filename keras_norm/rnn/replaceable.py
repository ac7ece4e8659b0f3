"""Another loop in the place of a recurrent layer's own, for as long as a block runs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple

import keras


class Loop(NamedTuple):
    """How a recurrent layer starts and runs.

    `initial_state` maps a batch size to the states before the first timestep; it is not asked where
    the layer is given them. `run` maps sequences (batch, time, features), states, and a mask or
    None to the last output, all outputs, and the last states.
    """

    initial_state: Callable[[Any], Any]
    run: Callable[[Any, Any, Any], tuple[Any, Any, Any]]


_loops: ContextVar[Mapping[Any, Loop]] = ContextVar("loops", default=MappingProxyType({}))


@contextmanager
def replaced_loops(loops: Mapping[Any, Loop]) -> Iterator[None]:
    """Have layers, when they are called in this thread, start and run as given.

    Nothing is written to a layer, and other threads run it as it is.

    Args:
        loops: the loops of layers, which are of `ReplaceableRNN`.
    """
    token = _loops.set({**_loops.get(), **loops})
    try:
        yield
    finally:
        _loops.reset(token)


class ReplaceableRNN(keras.layers.RNN):
    """A `keras.layers.RNN` whose loop `replaced_loops` replaces.

    A subclass gives `own_loop`, with the arguments and results of `inner_loop`, instead of that,
    and may override `own_initial_state` instead of `get_initial_state`.
    """

    def get_initial_state(self, batch_size: Any) -> Any:
        """The states before the first timestep."""
        loop = _loops.get().get(self)
        return (self.own_initial_state if loop is None else loop.initial_state)(batch_size)

    def inner_loop(
        self, sequences: Any, initial_state: Any, mask: Any, training: bool = False
    ) -> tuple[Any, Any, Any]:
        """Run the loop for `keras.layers.RNN.call`, which has prepared the states.

        Returns:
            The last output, all outputs (or the last one alone without `return_sequences`), and the
            last states.
        """
        loop = _loops.get().get(self)
        if loop is None:
            return self.own_loop(sequences, initial_state, mask, training)
        return loop.run(sequences, initial_state, mask)

    def own_initial_state(self, batch_size: Any) -> Any:
        """What `get_initial_state` gives, whatever is replaced."""
        return super().get_initial_state(batch_size)
