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
    """One step of the simple recurrence (Ba et al. 2016, arXiv 1607.06450, section 3.1).

    ::

        h = tanh(x + recurrent_norm(U h)) with x = kernel_norm(W x_t) + b

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
