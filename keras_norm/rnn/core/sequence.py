"""Run a recurrence over a sequence, in the loop that a backend provides.

`backward.py` has the gradient. The loops contain the chain of states and the norms. The products of
all timesteps with a kernel run before or after a loop.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from keras import ops

from keras_norm.ops.resets import reset_states, split_states
from keras_norm.ops.timestep_norm import first_latest
from keras_norm.rnn.core.operations import (
    Zero,
    activate,
    apply_masks,
    side_by_side,
    split_columns,
)
from keras_norm.rnn.core.product import kernel_product, recurrent_product
from keras_norm.rnn.core.recurrence import Recurrence, Slot, Tree
from keras_norm.rnn.core.step_checks import check_residuals, check_step
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.rnn.core.zoneout import change_states, changes_at
from keras_norm.typing import Nest, Tensor, Tensors

# A function body(carry, rows, shared) that a `Loop` calls for each timestep t. `rows` has slices
# x[t] of tensors (time, ...), and `shared` has tensors that all timesteps read. The function
# returns the new carry, and slices that the loop writes into tensors (time, ...).
Body: TypeAlias = Callable[[Nest, Tree, Tree], tuple[Nest, Tree]]


class Loop(Protocol):
    """A loop over time, which each backend implements.

    It calls `body(carry, rows, shared)` for each timestep. `arrays` is a tree of tensors
    (time, ...), and `rows` the tree of their rows at the timestep. `shared` is a tree of tensors
    for all timesteps. `body` reads no other tensors, and returns the new carry and a tree of rows
    to write. The loop returns the last carry, and the written rows as tensors (time, ...).

    Attributes:
        joins_gates: whether the gates of a step are written as one row "gates". It is as large as
            the row "gates" of `arrays`, so that the backend writes it to the same memory.
    """

    joins_gates: bool

    def __call__(
        self,
        body: Body,
        carry: Nest,
        arrays: Tree,
        shared: Tree,
        *,
        initial: Tensors | None = None,
        reverse: bool = False,
    ) -> tuple[Nest, Tree]:
        """Call `body` at every timestep; return the last carry, and the results stacked over time.

        Args:
            body: step of the loop.
            carry: first carry.
            arrays: tensors (time, ...), or longer.
            shared: tensors for all timesteps.
            initial: the first rows of the arrays "states", if `body` writes rows "states". These
                arrays are one row longer than time.
            reverse: whether to run from the last timestep to the first.
        """


class ForwardResults(NamedTuple):
    """Outputs, last states and batch statistics of `forward`, and arrays for the backward pass.

    Args:
        outputs: a list of the first state at every timestep (time, batch, units); or empty.
        states: the last states.
        statistics: mean and variance (time, 1, features) of the batch by slot.
        residuals: arrays that `backward` reads; empty at inference.
    """

    outputs: Tensors
    states: Tensors
    statistics: dict[str, Tensors]
    residuals: Tree


def forward(
    recurrence: Recurrence,
    loop: Loop,
    xs: Tensors,
    states: Tensors,
    weights: Tree,
    constants: Tree,
    *,
    return_sequences: bool,
    training: bool,
) -> ForwardResults:
    """Run a recurrence over all timesteps; in training, also return what `backward` reads.

    Args:
        recurrence: the cell and its norms; its class documents `weights` and `constants`.
        loop: a loop over time.
        xs: inputs (time, batch, features): one, or one for each gate.
        states: initial states (batch, units). With "resets" in `constants`, the states after a
            reset follow.
        weights: weights of the recurrence.
        constants: mask, dropout mask and moving statistics.
        return_sequences: whether to return the first state at every timestep.
        training: whether to return the residuals of `backward`.
    """
    names = [slot.name for slot in recurrence.slots]
    of_x, of_h = kernel_product(recurrence, weights), recurrent_product(recurrence, weights)
    keeps_product = of_h.is_needed or any(slot.norm for slot in recurrence.joint)
    states, after_reset = split_states(states, constants.get("resets"))

    # Check the result of one timestep only. PyTorch calls the function `body` at every timestep,
    # and repeated checks would take time.
    unchecked = [True]

    def body(carry: Nest, rows: Tree, shared: Tree) -> tuple[Nest, Tree]:
        states, latest = carry
        weights, unmasked = shared["weights"], rows["constants"].get("unmasked")
        states = reset_states(states, rows["constants"].get("resets"), shared["after_reset"])
        of_slots = recurrence.cell, recurrence.norms, weights, rows["constants"]
        norms = StepNorms(*of_slots, carried=latest.items())
        product = recurrent_product(recurrence, weights).multiply(
            apply_masks(shared["dropout"], states[0])
        )
        bias, recurrent_bias = weights.get("bias"), weights.get("recurrent_bias")
        if recurrence.joint:
            product = rows["gates"] + product
            z = side_by_side(_normalize(recurrence.joint, norms, product, bias))
            x, u = [Zero()] * len(recurrence.groups), split_columns(z, [*recurrence.groups])
        else:
            x = _normalize(recurrence.kernel, norms, rows["gates"], bias)
            u = _normalize(recurrence.recurrent, norms, product, recurrent_bias)
        read = recurrence.read_by_step(weights, rows["constants"])
        step = recurrence.cell.forward_step(x, u, states, read, activate, norms)
        if unchecked:
            check_step(recurrence.cell, step, states)
            if training:
                check_residuals(recurrence, step, norms, rows["gates"])
            unchecked.clear()
        changes = changes_at(recurrence.zoneout, rows["constants"].get("changes", []))
        new = change_states(changes, [*step.states], states)
        if unmasked is not None:
            new = [ops.where(unmasked, n, o) for n, o in zip(new, states, strict=True)]
        if not training:
            return (new, norms.carried), {"outputs": new[:1] if return_sequences else []}
        written: Tree = {"residuals": step.residuals, "states": new}
        written["statistics"] = {name: norms.statistics.get(name, []) for name in names}
        written["gates"] = side_by_side(step.gates) if loop.joins_gates else step.gates
        written["product"] = [product] if keeps_product else []
        written["computed"] = step.states if any(recurrence.zoneout) else []
        return (new, norms.carried), written

    a = of_x.multiply(xs)
    per_step = {name: x for name, x in constants.items() if name != "dropout"}
    arrays = {"gates": a, "constants": per_step}
    shared = shared_tensors(weights, constants) | {"after_reset": after_reset}
    initial = states if training else None
    dtype, sharing = states[0].dtype, recurrence.sharing(constants)
    latest = {slot.name: first_latest(slot.width, dtype) for slot in sharing}
    (last, _), written = loop(body, (states, latest), arrays, shared, initial=initial)
    if not training:
        return ForwardResults(written["outputs"], last, {}, {})
    outputs = [written["states"][0][1:]] if return_sequences else []
    statistics = written["statistics"]
    batch = {name: recurrence.norms[name].moments(statistics[name]) for name in recurrence.learning}
    kept = {"xs": xs, "last": last, "x_product": [a] if of_x.is_needed else []}
    kept["after_reset"] = after_reset
    return ForwardResults(outputs, last, batch, written | kept)


def _normalize(
    slots: tuple[Slot, ...], norms: StepNorms, a: Tensor, bias: Tensor | None
) -> list[Tensor]:
    """Normalize each group of the columns of `a`, and add the bias."""
    widths = [slot.width for slot in slots]
    biases = [None] * len(slots) if bias is None else split_columns(bias, widths)
    groups = zip(slots, split_columns(a, widths), biases, strict=True)
    return [norms.apply(slot.name, group, b) for slot, group, b in groups]


def shared_tensors(weights: Tree, constants: Tree) -> Tree:
    """Collect the tensors that all timesteps of a loop read."""
    return {"weights": weights, "dropout": constants["dropout"]}
