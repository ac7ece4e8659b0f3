"""One step of an LSTM with normalization inside."""

from collections.abc import Callable
from typing import Any

from keras import ops

GATES = ("input", "forget", "cell", "output")


def lstm_step(
    x: Any,
    states: list[Any],
    recur: Callable[[Any], Any],
    bias: Any,
    norm: Callable[[str, Any], Any],
    activation: Callable[[Any], Any],
    recurrent_activation: Callable[[Any], Any],
    *,
    norm_form: str = "separate",
    normalize_carry: bool = False,
) -> list[Any]:
    """One step of the normalized LSTM (Ba et al. 2016, arXiv 1607.06450, eq. 20-22).

    ::

        separate    i, f, g, o = x + recurrent_norm(U h) with x = kernel_norm(W x_t) + b
        joint       each gate = gate_norm(W x_t + U h) + b, and no norm of c
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(state_norm(c))

    Args:
        x: (batch, 4 * units): kernel_norm(W x_t) + b, or W x_t in the joint form.
        states: h and c, each (batch, units).
        recur: h -> U h, (batch, 4 * units).
        bias: (4 * units,) or None; only the joint form adds it here.
        norm: (slot, tensor) -> tensor; the tensor itself for an empty slot.
        activation: tanh above.
        recurrent_activation: s above.
        norm_form: "separate" or "joint".
        normalize_carry: carry state_norm(c) in place of c, as TensorFlow Addons did.

    Returns:
        h and c after the step.
    """
    h, c = states
    if norm_form == "joint":
        gates = ops.split(x + recur(h), 4, axis=-1)
        gates = [norm(f"{name}_norm", z) for name, z in zip(GATES, gates, strict=True)]
        if bias is not None:
            gates = [z + b for z, b in zip(gates, ops.split(bias, 4), strict=True)]
        i, f, g, o = gates
    else:
        i, f, g, o = ops.split(x + norm("recurrent_norm", recur(h)), 4, axis=-1)
    c = recurrent_activation(f) * c + recurrent_activation(i) * activation(g)
    normalized = norm("state_norm", c)
    h = recurrent_activation(o) * activation(normalized)
    return [h, normalized if normalize_carry else c]
