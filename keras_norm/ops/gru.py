"""One step of a GRU with normalization inside."""

from collections.abc import Callable
from typing import Any

from keras import ops


def gru_step(
    x: Any,
    h: Any,
    recur: Callable[[Any], Any],
    norm: Callable[[str, Any], Any],
    activation: Callable[[Any], Any],
    recurrent_activation: Callable[[Any], Any],
) -> Any:
    """One step of the GRU whose reset gate acts on U h.

    ::

        z, r = s(x_zr + recurrent_norm((U h)_zr))
        h = z * h + (1 - z) * tanh(x_h + r * recurrent_candidate_norm((U h)_h))

    With norms it is the GRU of Ba et al. (2016, arXiv 1607.06450, supplement, with z and 1 - z in
    Keras' places); without, that of Keras with `reset_after=True`.

    Args:
        x: (batch, 3 * units): the normalized W x_t, and the bias.
        h: (batch, units).
        recur: h -> U h, and the recurrent bias where there is one, (batch, 3 * units).
        norm: (slot, tensor) -> tensor; the tensor itself for an empty slot.
        activation: tanh above.
        recurrent_activation: s above.

    Returns:
        The state after the step.
    """
    units = h.shape[-1]
    u = recur(h)
    x_zr, x_h = x[:, : 2 * units], x[:, 2 * units :]
    z, r = ops.split(
        recurrent_activation(x_zr + norm("recurrent_norm", u[:, : 2 * units])), 2, axis=-1
    )
    candidate = activation(x_h + r * norm("recurrent_candidate_norm", u[:, 2 * units :]))
    return z * h + (1.0 - z) * candidate


def gru_step_reset_before(
    x: Any,
    h: Any,
    recur: Callable[[Any], Any],
    recur_candidate: Callable[[Any], Any],
    activation: Callable[[Any], Any],
    recurrent_activation: Callable[[Any], Any],
) -> Any:
    """One step of the GRU whose reset gate acts on h: Keras' `reset_after=False`, without norms.

    ::

        z, r = s(x_zr + U_zr h)
        h = z * h + (1 - z) * tanh(x_h + U_h (r * h))

    Args:
        x: (batch, 3 * units): W x_t + b.
        h: (batch, units).
        recur: h -> U_zr h, (batch, 2 * units).
        recur_candidate: r * h -> U_h (r * h), (batch, units).
        activation: tanh above.
        recurrent_activation: s above.

    Returns:
        The state after the step.
    """
    units = h.shape[-1]
    z, r = ops.split(recurrent_activation(x[:, : 2 * units] + recur(h)), 2, axis=-1)
    candidate = activation(x[:, 2 * units :] + recur_candidate(r * h))
    return z * h + (1.0 - z) * candidate
