"""One step of a simple recurrence with normalization inside."""

from collections.abc import Callable
from typing import Any


def simple_rnn_step(
    x: Any,
    h: Any,
    recur: Callable[[Any], Any],
    norm: Callable[[str, Any], Any],
    activation: Callable[[Any], Any],
) -> Any:
    """One step of the simple recurrence, normalized as the LSTM of Ba et al. (2016) is, eq. 20.

    ::

        h = tanh(x + recurrent_norm(U h)) with x = kernel_norm(W x_t) + b

    Their own simple recurrence (section 3.1, eq. 4) has one norm, of the sum W x_t + U h.

    Args:
        x: (batch, units).
        h: (batch, units).
        recur: h -> U h, (batch, units).
        norm: (slot, tensor) -> tensor; the tensor itself for an empty slot.
        activation: tanh above.

    Returns:
        The state after the step.
    """
    return activation(x + norm("recurrent_norm", recur(h)))
