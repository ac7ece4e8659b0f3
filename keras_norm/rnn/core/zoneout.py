"""Zoneout: units of a state that keep the value of the previous timestep."""

from collections.abc import Sequence
from typing import TypeAlias

from keras import ops

from keras_norm.rnn.core.operations import interpolate
from keras_norm.typing import Tensor, Tensors

# The zoneout of one state. In training it is a bool tensor (..., batch, units): True if a unit
# takes its new value. At inference it is the number 1 - rate, because a unit then takes the value
# (1 - rate) * new + rate * old. It is None if the state has no zoneout.
Changes: TypeAlias = Tensor | float | None


def changes_at(rates: Sequence[float], drawn: Tensors) -> list[Changes]:
    """Return the zoneout of each state at a timestep, as `Changes`; [] without zoneout.

    Args:
        rates: probability of each state that a unit keeps its value.
        drawn: bool (batch, units) of each state with zoneout in training; empty at inference.
    """
    if not any(rates):
        return []
    of_states = iter(drawn)
    return [None if rate == 0.0 else next(of_states, 1.0 - rate) for rate in rates]


def change_states(changes: Sequence[Changes], new: Tensors, old: Tensors) -> Tensors:
    """Apply zoneout: return the new states, in which some units keep the old value.

    `changes` is empty if no state has zoneout.
    """
    if not changes:
        return new
    return [_mix(*of_state) for of_state in zip(changes, new, old, strict=True)]


def divide_gradients(changes: Sequence[Changes], d: Tensors) -> tuple[Tensors, list[Tensor | None]]:
    """Split the gradients of the states after zoneout into gradients of new and of old states.

    The gradient of an old state is None for zeros.
    """
    if not changes:
        return d, [None] * len(d)
    of_new = [_mix(change, x, ops.zeros_like(x)) for change, x in zip(changes, d, strict=True)]
    of_old = [None if y is x else x - y for x, y in zip(d, of_new, strict=True)]
    return of_new, of_old


def _mix(change: Changes, new: Tensor, old: Tensor) -> Tensor:
    if change is None:
        return new
    if isinstance(change, float):
        return interpolate(change, new, old)
    return ops.where(change, new, old)
