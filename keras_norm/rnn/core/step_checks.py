"""Check the results of the `forward_step` and the `backward_step` that a user writes."""

from typing import Any

from keras_norm.rnn.core.recurrence import CellWeights, Recurrence, StepGradients, StepResult
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.typing import Tensor, Tensors


def is_matrix(weight: Tensor) -> bool:
    """Return whether a further weight of a cell is a matrix, which a step multiplies by inputs."""
    return len(weight.shape) == 2


def check_step(cell: type, step: Any, states: Tensors) -> None:
    """Check the result of `forward_step`.

    Args:
        cell: class of the cell.
        step: result of `forward_step`.
        states: the states before the step.

    Raises:
        TypeError: the result is not a `StepResult`.
        ValueError: another number of states, or states of other sizes.
    """
    if not isinstance(step, StepResult):
        raise TypeError(
            f"forward_step of {cell.__name__} must return StepResult(states, gates, residuals). "
            f"Received: {type(step).__name__}."
        )
    if len(step.states) != len(states):
        raise ValueError(
            f"forward_step of {cell.__name__} must return {len(states)} states, as many as it "
            f"receives. Received: {len(step.states)} states. Name all states in STATES."
        )
    sizes, expected = ([state.shape[-1] for state in of] for of in (step.states, states))
    if sizes != expected:
        raise ValueError(
            f"forward_step of {cell.__name__} must return states of the sizes {expected}. "
            f"Received: states of the sizes {sizes}. Read the options of the cell, such as "
            "projection_units, or do not accept them."
        )


def check_residuals(recurrence: Recurrence, step: StepResult, norms: StepNorms, x: Tensor) -> None:
    """Check that the backward pass can read the gates and the norms of a step.

    Args:
        recurrence: the recurrence.
        step: result of `forward_step`.
        norms: the norms that `forward_step` has called.
        x: the columns of x W, which the gates replace.

    Raises:
        ValueError: the gates have another number of columns, or a norm was not called.
    """
    columns = sum(gate.shape[-1] for gate in step.gates)
    if columns != x.shape[-1]:
        raise ValueError(
            f"The gates that forward_step of {recurrence.cell.__name__} returns must have as many "
            f"columns as x W. Received: {columns} columns, and {x.shape[-1]} columns of x W. Move "
            "other arrays to the residuals."
        )
    _require_calls(recurrence, norms.statistics, "forward_step", "norm({slot!r}, ...)")


def check_gradients(
    recurrence: Recurrence, step: Any, norms: StepNorms, states: Tensors, weights: CellWeights
) -> None:
    """Check the result of `backward_step`.

    Args:
        recurrence: the recurrence.
        step: result of `backward_step`.
        norms: the norms that `backward_step` has called.
        states: the states before the step.
        weights: further weights of the cell by name.

    Raises:
        TypeError: the result is not a `StepGradients` of lists.
        ValueError: another number of gradients, or a missing `norm.backward`.
    """
    name = f"backward_step of {recurrence.cell.__name__}"
    if not (isinstance(step, StepGradients) and all(isinstance(g, list) for g in step[:3])):
        raise TypeError(
            f"{name} must return StepGradients(x, u, states, weights): three lists and a dict. "
            f"Received: {type(step).__name__}."
        )
    groups = len(recurrence.groups)
    expected = {"x": len(recurrence.kernel), "u": groups, "states": len(states)}
    if recurrence.joint:
        expected["x"] = len(step.x)
    found = {part: len(getattr(step, part)) for part in expected}
    if found != expected:
        raise ValueError(
            f"{name} must return a gradient for each group of columns of x W (list x) and of h U "
            f"(list u), and for each state. Received: {found} gradients. Return {expected}, with "
            "None for a state of zero gradient."
        )
    if step.weights.keys() != weights.keys():
        raise ValueError(
            f"{name} must return a gradient for each further weight of the cell. Received: "
            f"{sorted(step.weights)}, and the weights {sorted(weights)}."
        )
    for weight in weights:
        pair = isinstance(gradient := step.weights[weight], tuple) and len(gradient) == 2
        if is_matrix(weights[weight]) != pair:
            raise ValueError(
                f"{name} must return the gradient of a matrix W as the pair (x, da) of its product "
                "a = x W, and the gradient of another weight for each sample. Received: "
                f"{type(gradient).__name__} for {weight} of shape "
                f"{tuple(weights[weight].shape)}."
            )
    _require_calls(recurrence, norms.gradients, "backward_step", "norm.backward({slot!r}, a, dy)")


def _require_calls(recurrence: Recurrence, called: Any, method: str, call: str) -> None:
    """Raise ValueError unless a step has called each norm inside the step."""
    for slot in recurrence.inner:
        if slot.norm is not None and slot.name not in called:
            raise ValueError(
                f"{method} of {recurrence.cell.__name__} does not use the norm in {slot.name}. "
                f"Call {call.format(slot=slot.name)} once, or leave the slot out of SLOTS."
            )
