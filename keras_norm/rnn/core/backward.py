"""Compute the gradients of a recurrence, in the loop that a backend provides."""

import operator

from keras import ops

from keras_norm.ops.resets import reset_states
from keras_norm.rnn.core.operations import apply_masks, side_by_side, split_columns
from keras_norm.rnn.core.product import Product, contract, kernel_product, recurrent_product
from keras_norm.rnn.core.recurrence import Recurrence, Tree, map_tree
from keras_norm.rnn.core.sequence import Loop, shared_tensors
from keras_norm.rnn.core.step_checks import check_gradients, is_matrix
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.rnn.core.zoneout import changes_at, divide_gradients
from keras_norm.typing import Nest, Tensor, Tensors


def backward(
    recurrence: Recurrence,
    loop: Loop,
    residuals: Tree,
    weights: Tree,
    constants: Tree,
    d_outputs: Tensors,
    d_states: Tensors,
) -> tuple[Tensors, Tensors, Tree]:
    """Compute the gradients of the inputs, the initial states and the weights of a recurrence.

    With resets, the gradients of the initial states and of the states after a reset are in the
    order of `forward`.

    Args:
        recurrence: the recurrence of `forward`.
        loop: a loop over time.
        residuals: residuals of `forward`.
        weights: weights of `forward`.
        constants: constants of `forward`.
        d_outputs: a list of the gradient of the first state at every timestep; or empty.
        d_states: gradients of the last states.
    """
    # Check the gradients of one timestep only. PyTorch calls the function `body` at every timestep,
    # and repeated checks would take time.
    unchecked = [True]

    def body(carry: Nest, rows: Tree, shared: Tree) -> tuple[Nest, Tree]:
        d, new, sums, later = carry
        weights, statistics = shared["weights"], rows["statistics"]
        resets = rows["constants"].get("resets")
        old = reset_states(rows["states"], resets, shared["after_reset"])
        of_x, of_h = kernel_product(recurrence, weights), recurrent_product(recurrence, weights)
        unmasked = rows["constants"].get("unmasked")
        if "d_outputs" in rows:
            d = [d[0] + rows["d_outputs"], *d[1:]]
        if unmasked is not None:
            # A masked timestep keeps the states, so their gradients stay unchanged too.
            skipped = [ops.where(unmasked, 0.0, x) for x in d]
            d = [ops.where(unmasked, x, 0.0) for x in d]
        changes = changes_at(recurrence.zoneout, rows["constants"].get("changes", []))
        d, of_old = divide_gradients(changes, d)
        of_slots = recurrence.cell, recurrence.norms, weights, rows["constants"]
        norms = StepNorms(*of_slots, statistics, later.items())
        gates = rows["gates"]
        if loop.joins_gates:
            gates = ops.split(gates, gates.shape[-1] // old[-1].shape[-1], axis=-1)
        new = rows["computed"] or new
        read = recurrence.read_by_step(weights, rows["constants"])
        step = recurrence.cell.backward_step(gates, rows["residuals"], old, new, d, read, norms)
        if unchecked:
            check_gradients(recurrence, step, norms, old, weights["cell"])
            unchecked.clear()
        if recurrence.joint:
            of_kernel = of_recurrent = _through_joint_norms(recurrence, norms, rows, step.u)
        else:
            of_kernel = _through_norms(of_x, norms, rows["x_product"], step.x)
            of_recurrent = _through_norms(of_h, norms, rows["product"], step.u)
        hs = apply_masks(shared["dropout"], old[0])
        dh, ws = of_h.input_gradients(
            hs, of_recurrent, statistics, rows["grams"], shared["transposed"]
        )
        if shared["dropout"]:
            dh = [x * mask for x, mask in zip(dh, shared["dropout"], strict=True)]
        of_step = [] if step.states[0] is None else step.states[:1]
        before = [sum([*dh[1:], *of_step], dh[0])]
        before += [
            ops.zeros_like(h) if x is None else x
            for h, x in zip(old[1:], step.states[1:], strict=True)
        ]
        before = [x if y is None else x + y for x, y in zip(before, of_old, strict=True)]
        if unmasked is not None:
            before = [x + y for x, y in zip(before, skipped, strict=True)]
        matrices = {
            name: [*step.weights[name]] for name, w in weights["cell"].items() if is_matrix(w)
        }
        of_samples = {name: d for name, d in step.weights.items() if name not in matrices}
        added: Tree = {"norms": norms.gradients, "cell": of_samples, "after_reset": []}
        if resets is not None:
            added["after_reset"] = [ops.where(resets, x, 0.0) for x in before]
            before = [ops.where(resets, 0.0, x) for x in before]
        own = {
            str(k): row
            for k, row in enumerate(of_recurrent)
            if k >= len(of_kernel) or row is not of_kernel[k]
        }
        written = {"gates": side_by_side(of_kernel), "own": own, "ws": ws, "matrices": matrices}
        sums = map_tree(operator.add, sums, added)
        return (before, rows["states"], sums, norms.carried), written

    of_x, of_h = kernel_product(recurrence, weights), recurrent_product(recurrence, weights)
    after_reset = residuals["after_reset"]
    xs, hs = residuals["xs"], [residuals["states"][0][:-1]]
    hs = apply_masks(
        constants["dropout"], *reset_states(hs, constants.get("resets"), after_reset[:1])
    )
    names = ("gates", "states", "statistics", "residuals", "product", "x_product", "computed")
    arrays = {name: residuals[name] for name in names} | {"grams": of_h.grams(hs)}
    read = ("unmasked", "resets", "changes", "step")
    arrays["constants"] = {k: v for k, v in constants.items() if k in read}
    if d_outputs:
        arrays["d_outputs"] = d_outputs[0]
    shared = shared_tensors(weights, constants)
    shared |= {"transposed": of_h.transposed(), "after_reset": after_reset}
    sums = _zero_sums(recurrence, weights, d_states[0])
    sums["after_reset"] = list(map(ops.zeros_like, after_reset))
    dtype, sharing = d_states[0].dtype, recurrence.sharing(constants)
    later = {slot.name: [ops.zeros((1, slot.width), dtype)] * 2 for slot in sharing}
    carry = (d_states, residuals["last"], sums, later)
    (d_states, _, sums, _), written = loop(body, carry, arrays, shared, reverse=True)
    d_states = [*d_states, *sums.pop("after_reset")]

    statistics, of_kernel = residuals["statistics"], of_x.groups(written["gates"])
    of_recurrent = [
        written["own"][str(k)] if str(k) in written["own"] else of_kernel[k]
        for k in range(len(recurrence.recurrent))
    ]
    d_xs, ws = of_x.input_gradients(xs, of_kernel, statistics, of_x.grams(xs), of_x.transposed())
    sums = map_tree(lambda rows: ops.sum(rows, axis=0), sums)
    gamma = {name: of_norm["gamma"] for name, of_norm in sums["norms"].items()}
    beta = {name: of_norm["beta"] for name, of_norm in sums["norms"].items()}
    of_matrices = {name: contract(*pair) for name, pair in written["matrices"].items()}
    gradients = {"cell": sums["cell"] | of_matrices}
    sides = (
        (of_x, xs, of_kernel, ws, "kernel", "bias"),
        (of_h, hs, of_recurrent, written["ws"], "recurrent_kernel", "recurrent_bias"),
    )
    for product, inputs, rows, ws, kernel, bias in sides:
        of_weights = product.weight_gradients(inputs, rows, statistics, ws)
        gradients[kernel], d_gamma, column_sums = of_weights
        gamma |= d_gamma
        slots = product.slots
        if recurrence.joint:
            slots = recurrence.joint
            columns = split_columns(column_sums[""], [slot.width for slot in slots])
            column_sums = {slot.name: d for slot, d in zip(slots, columns, strict=True)}
        d_bias = column_sums | {k: v for k, v in beta.items() if k in column_sums}
        gradients[bias] = side_by_side([d_bias[slot.name] for slot in slots])
    gradients |= {"gamma": gamma, "beta": beta}
    return d_xs, d_states, _select(gradients, weights)


def _through_joint_norms(
    recurrence: Recurrence, norms: StepNorms, rows: Tree, dys: list[Tensor]
) -> list[Tensor]:
    """Return the gradient of x W + h U, the input of the norms, as a list of one tensor."""
    dy = side_by_side(dys)
    if not rows["product"]:
        return [dy]
    widths = [slot.width for slot in recurrence.joint]
    groups = split_columns(rows["product"][0], widths), split_columns(dy, widths)
    of_slots = zip(recurrence.joint, *groups, strict=True)
    return [side_by_side([norms.backward(slot.name, z, dz) for slot, z, dz in of_slots])]


def _through_norms(
    product: Product, norms: StepNorms, products: list[Tensor], dys: list[Tensor]
) -> list[Tensor]:
    """Return the gradient da of a = x W, split into the columns of each norm.

    For a norm that uses a Gram matrix (see `Product`), return dy, the gradient of its output.
    """
    if not products:
        return dys
    groups = zip(product.slots, product.groups(products[0]), dys, strict=True)
    return [
        norms.backward(slot.name, a, dy) if product.needs_product(slot) else dy
        for slot, a, dy in groups
    ]


def _zero_sums(recurrence: Recurrence, weights: Tree, like: Tensor) -> Tree:
    """Create zeros for the gradients that the backward loop adds over time."""
    batch, dtype, grams = ops.shape(like)[0], like.dtype, []
    for product in (kernel_product(recurrence, weights), recurrent_product(recurrence, weights)):
        grams += [slot.name for slot in product.slots if product.uses_gram(slot)]
    norms = {}
    for slot in recurrence.slots:
        if slot.norm is not None and slot.name not in grams:
            shape = (1 if slot.norm.per_batch else batch, slot.width)
            norms[slot.name] = {name: ops.zeros(shape, dtype) for name in ("gamma", "beta")}
    cell = {
        name: ops.zeros((batch, *w.shape), dtype)
        for name, w in weights["cell"].items()
        if not is_matrix(w)
    }
    return {"norms": norms, "cell": cell}


def _select(gradients: Tree, weights: Tree) -> Tree:
    """Keep only the gradients of weights that the cell has."""
    return {
        name: _select(gradients[name], w) if isinstance(w, dict) else gradients[name]
        for name, w in weights.items()
    }
