"""A recurrent layer with another loop in the place of its own, in one thread."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras

# Two threads that replace the loop of one layer take turns.
_one_at_a_time = threading.RLock()


@contextlib.contextmanager
def replaced_loop(
    layer: keras.layers.RNN,
    get_initial_state: Callable[[Any], Any],
    inner_loop: Callable[[Any, Any, Any], tuple[Any, Any, Any]],
) -> Iterator[None]:
    """Have a layer, when it is called in this thread, start and run as given.

    `keras.layers.RNN.call` looks up both methods when the model calls the layer, and they are its
    own again afterwards. Other threads run the layer as it is meanwhile.

    Args:
        layer: a recurrent layer.
        get_initial_state: batch size -> states before the first timestep; it is not asked where the
            layer is given an initial_state.
        inner_loop: sequences (batch, time, features), those states, and the mask or None -> the
            last output, all outputs, and the last states.
    """
    here = threading.get_ident()

    def started(batch_size: Any) -> Any:
        if threading.get_ident() != here:
            return type(layer).get_initial_state(layer, batch_size)
        return get_initial_state(batch_size)

    def looped(sequences: Any, initial_state: Any, mask: Any, training: bool = False) -> Any:
        if threading.get_ident() != here:
            return type(layer).inner_loop(layer, sequences, initial_state, mask, training)
        return inner_loop(sequences, initial_state, mask)

    with _one_at_a_time:
        layer.get_initial_state, layer.inner_loop = started, looped
        try:
            yield
        finally:
            del layer.get_initial_state, layer.inner_loop
