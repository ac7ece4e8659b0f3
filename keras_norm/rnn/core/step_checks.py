"""Check the results of the `forward_step` and the `backward_step` that a user writes."""

from typing import Any

from keras_norm.rnn.core.recurrence import CellWeights, Recurrence, StepGradients, StepResult
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.typing import Tensor, Tensors


def is_matrix(weight: Tensor) -> bool:
    """Return whether a weight is a matrix: then `backward_step` returns its gradient as a pair."""
    return len(weight.shape) == 2


def check_step(cell: type, step: Any, states: Tensors) -> None:
    """Check that `forward_step` returned a `StepResult` with states of the right sizes.

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
            f"Received: states of the sizes {sizes}. Use the options that set these sizes, such as "
            "projection_units, in forward_step, or do not accept these options."
        )


def check_residuals(recurrence: Recurrence, step: StepResult, norms: StepNorms, x: Tensor) -> None:
    """Check that `forward_step` returned gates with as many columns as x W, and called its norms.

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
            f"columns as x W. Received: {columns} columns, and {x.shape[-1]} columns of x W. "
            "Put arrays that are not gates into StepResult.residuals, not into StepResult.gates."
        )
    _require_calls(recurrence, norms.statistics, "forward_step", "norm({slot!r}, ...)")


def check_gradients(
    recurrence: Recurrence, step: Any, norms: StepNorms, states: Tensors, weights: CellWeights
) -> None:
    """Check the types and the numbers of the gradients that `backward_step` returns.

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
            f"{name} must return three lists of gradients: x for the groups of columns of x W, u "
            f"for the groups of columns of h U, and states for the states. Received: {found} "
            f"gradients. Return {expected}. For a state whose gradient is zero, return None."
        )
    if step.weights.keys() != weights.keys():
        raise ValueError(
            f"{name} must return a gradient for each weight other than kernels and biases. "
            f"Received gradients of {sorted(step.weights)}. The weights are {sorted(weights)}."
        )
    for weight in weights:
        pair = isinstance(gradient := step.weights[weight], tuple) and len(gradient) == 2
        if is_matrix(weights[weight]) != pair:
            raise ValueError(
                f"{name} must return the gradient of a matrix W as the pair (x, da) of its product "
                "a = x W, and the gradient of any other weight as an array. Received: "
                f"{type(gradient).__name__} for {weight} of shape "
                f"{tuple(weights[weight].shape)}."
            )
    _require_calls(recurrence, norms.gradients, "backward_step", "norm.backward({slot!r}, a, dy)")


def _require_calls(recurrence: Recurrence, called: Any, method: str, call: str) -> None:
    """Raise ValueError unless `method` has called every inner norm, such as `state_norm`."""
    for slot in recurrence.inner:
        if slot.norm is not None and slot.name not in called:
            raise ValueError(
                f"{method} of {recurrence.cell.__name__} does not use the norm {slot.name}. "
                f"Call {call.format(slot=slot.name)} once, or remove {slot.name} from SLOTS."
            )
