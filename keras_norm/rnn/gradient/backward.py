"""The backward loop of the gradient by hand."""

from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.ops.projection import under
from keras_norm.rnn.gradient.cells import CELLS, StepGradients
from keras_norm.rnn.gradient.norms import BatchNormStep, StateNorm, Statistics, of_rows
from keras_norm.rnn.gradient.products import block_gradient, blocks_of, row_terms, split
from keras_norm.rnn.gradient.programs import (
    Setting,
    Vectors,
    array,
    batch_norms_at,
    read,
    stack,
    unstack,
)
from keras_norm.rnn.gradient.spec import STATE, Place, Spec


class Backward(NamedTuple):
    """What the backward loop leaves.

    Gradients of the initial `states`; of the `groups` of x W and of h U, each (time, batch,
    width), in the arrays that `Spec.gradients` tells; the `row_terms` (time, batch, 1) of each
    group of h U; and the gradients of gamma and beta of the `norms` of the state and of those
    over the batch, by their places.
    """

    states: list[Any]
    groups: list[Any]
    row_terms: list[list[Any]]
    norms: dict[Place, list[Any]]


def backward(
    spec: Spec,
    d_outputs: Any,
    d_states: list[Any],
    path: list[Any],
    kept: dict[str, Any],
    projected: list[Any],
    grams: list[Any],
    sums: list[Any],
    recurrent: list[Any],
    statistics: list[Statistics],
    vectors: Vectors,
    setting: Setting,
) -> Backward:
    """Run the recurrence's derivative, from the last timestep to the first.

    Args:
        spec: which recurrence.
        d_outputs: gradients of h at every timestep (time, batch, units).
        d_states: gradients of the last states.
        path: of `Forward`.
        kept: of `Forward`.
        projected: [x W] where a batch norm needs it, else [].
        grams: h G (time, batch, units) for each block of a group of h U with a norm of rows, where
            h is the state before the step, under dropout.
        sums: the row sums of U (units,), for the same blocks.
        recurrent: (gamma U)^T (width, units) for each block; U^T without a norm of rows.
        statistics: those that each batch norm used.
        vectors: gains and biases.
        setting: as for `forward`, without moving statistics.
    """
    cell, units, dtype = CELLS[spec.cell], spec.units, kept["saved"][0].dtype
    time = tf.shape(kept["saved"][0])[0]
    path_arrays = unstack(path)
    arrays = unstack((d_outputs, kept, projected, grams, statistics, setting.mask))
    array_of, steps, dropout = spec.gradients, setting.steps, setting.dropout

    def body(k: Any, d_states: Any, groups: Any, terms: Any, d_norms: Any) -> Any:
        t = steps - 1 - k
        old, new = read(path_arrays, t), read(path_arrays, t + 1)
        d_output, kept, xs, grams, statistics, alive = read(arrays, t)
        row_statistics = kept["row_statistics"]
        batch_norms = batch_norms_at(spec, vectors, alive, statistics=statistics)
        row_norm = StateNorm(of_rows(spec.state), *vectors.of("state"), row_statistics["state"])
        d = [d_states[0] + d_output, *d_states[1:]]
        if alive:
            zero = tf.zeros([], dtype)
            held = [tf.where(alive[0], zero, x) for x in d]
            d = [tf.where(alive[0], x, zero) for x in d]
        step = cell.backward(kept["saved"], old, new, d, batch_norms.get(STATE, row_norm))

        products = {"kernel": xs, "recurrent": kept["product"]}
        by_array, d_vectors = _group_gradients(spec, step, batch_norms, products)
        dys = [by_array[i] for i in array_of["recurrent"]]
        hs = under(dropout, old[0])
        of_groups = row_statistics["recurrent"]
        d_hs, row = _product_gradients(spec, vectors, hs, dys, of_groups, grams, sums, recurrent)
        d_hs = [x * mask for x, mask in zip(d_hs, dropout, strict=True)] if dropout else d_hs
        dh = tf.add_n(d_hs)
        before = [dh, *step.states[1:]]
        if step.states[0] is not None:
            before[0] = before[0] + step.states[0]
        if alive:
            before = [x + y for x, y in zip(before, held, strict=True)]
        groups = [a.write(t, by_array[i]) for i, a in enumerate(groups)]
        terms = tf.nest.map_structure(lambda a, x: a.write(t, x), terms, row)
        d_norms = tf.nest.map_structure(tf.add, d_norms, d_vectors)
        return k + 1, before, groups, terms, d_norms

    of_both = [*array_of["kernel"], *array_of["recurrent"]]
    widths = dict(zip(of_both, spec.widths() * 2, strict=True))
    rows = kept["saved"][0].shape[1]
    groups = [array(dtype, time, rows, widths[i]) for i in range(len(widths))]
    normed = kept["row_statistics"]["recurrent"]
    terms = [[array(dtype, time, rows, 1) for _ in of_group] for of_group in normed]
    sizes = {place: spec.widths(place.side)[place.group] for place in spec.batch_norms}
    d_norms = {place: [tf.zeros([size], dtype)] * 2 for place, size in sizes.items()}
    d_norms[STATE] = [tf.zeros([units], dtype)] * (0 if spec.state is None else 2)
    _, d_states, groups, terms, d_norms = tf.while_loop(
        lambda k, *_: k < steps, body, (0, d_states, groups, terms, d_norms)
    )
    return Backward(d_states, stack(groups), stack(terms), d_norms)


def _group_gradients(
    spec: Spec,
    step: StepGradients,
    batch_norms: dict[Place, BatchNormStep],
    products: dict[str, list[Any]],
) -> tuple[dict[int, Any], dict[Place, list[Any]]]:
    """Gradients of the groups of x W and h U, and of the gammas and betas of batch norms, by place.

    Those of the groups, (batch, width), are in the arrays that `Spec.gradients` tells. `products`
    are [x W] ("kernel") and [h U] ("recurrent"), where a batch norm stands.
    """
    cell, array_of = CELLS[spec.cell], spec.gradients
    by_array: dict[int, Any] = {}
    d_vectors = {STATE: step.norm}
    for side, gradient_of in (("kernel", cell.KERNEL), ("recurrent", cell.RECURRENT)):
        for group, gradient in enumerate(gradient_of):
            dy, place = tf.concat(step.groups[gradient], axis=1), Place(side, group)
            if place in batch_norms:
                a = split(products[side][0], spec.widths())[group]
                dy, d_vectors[place] = batch_norms[place].backward(a, dy)
            by_array[array_of[side][group]] = dy
    return by_array, d_vectors


def _product_gradients(
    spec: Spec,
    vectors: Vectors,
    hs: list[Any],
    dys: list[Any],
    statistics: list[list[Any]],
    grams: list[Any],
    sums: list[Any],
    recurrent: list[Any],
) -> tuple[list[Any], list[list[Any]]]:
    """What the groups of h U give h under each dropout mask, and the `row_terms` of each group.

    `dys` are the gradients of the groups, `statistics` those of the norm of rows of each; the rest
    is as for `backward`, at this timestep.
    """
    d_hs: list[Any] = [0.0] * len(hs)
    terms = []
    kernels, grams_left, sums_left = map(iter, (recurrent, grams, sums))
    gammas = split(vectors.recurrent_gamma, spec.widths())
    groups = zip(gammas, spec.masks("recurrent"), dys, statistics, strict=True)
    for gamma, masks, dy, of_group in groups:
        es = [block @ next(kernels) for block in blocks_of(dy, len(masks))]
        of_row: list[Any] = []
        if of_group:
            of_row = row_terms([hs[mask] for mask in masks], es, of_group, dy, gamma)
            es = [
                block_gradient(of_group, of_row, e, next(grams_left), next(sums_left)) for e in es
            ]
        terms.append(of_row)
        for mask, e in zip(masks, es, strict=True):
            d_hs[mask] = d_hs[mask] + e
    return d_hs, terms
