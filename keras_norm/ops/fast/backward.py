"""The backward loop of the fast sequence form."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.ops.fast.cells import CELLS
from keras_norm.ops.fast.columns import Statistics
from keras_norm.ops.fast.norms import StateNorm, of_rows, statistics_count
from keras_norm.ops.fast.products import block_of, second_term
from keras_norm.ops.fast.programs import (
    Vectors,
    array,
    column_norms,
    compiled,
    over_time,
    read,
    read_gates,
    rows,
    shared,
    stack,
    statistics_over_time,
    under,
    unstack,
)
from keras_norm.ops.fast.spec import STATE, Place, Spec


class Backward(NamedTuple):
    """What the backward loop leaves.

    Gradients of the initial `states`; of the `groups` of x W and of h U, each (time, batch, width),
    in the arrays that `Spec.gradients` tells; the second terms w (time, batch, 1) of the groups of
    h U with a norm of rows; and the gradients of gamma and beta of the `norms` of the state and of
    those over the batch, by their places.
    """

    states: list[Any]
    groups: list[Any]
    second_terms: list[Any]
    norms: dict[Place, list[Any]]


def backward(
    spec: Spec,
    steps: Any,
    d_outputs: list[Any],
    d_states: list[Any],
    path: list[Any],
    kept: dict[str, list[Any]],
    projected: list[Any],
    grams: list[Any],
    recurrent: list[Any],
    statistics: list[Statistics],
    vectors: Vectors,
    mask: list[Any],
    dropout: list[Any],
) -> Backward:
    """Run the recurrence's derivative, from the last timestep to the first.

    Args:
        spec: which recurrence.
        steps: number of timesteps.
        d_outputs: [], or [gradients of h at every timestep (time, batch, units)].
        d_states: gradients of the last states.
        path: of `Forward`.
        kept: of `Forward`.
        projected: [x W] where a batch norm needs it, else [].
        grams: h G (time, batch, units) for each block of a group of h U with a norm of rows, where
            h is the state before the step, under dropout.
        recurrent: (gamma U)^T (width, units) for each block; U^T without a norm of rows.
        statistics: those that each batch norm used.
        vectors: gains and biases.
        mask: as for `forward`.
        dropout: as for `forward`.
    """
    cell, units, dtype = CELLS[spec.cell], spec.units, kept["saved"][0].dtype
    time = tf.shape(kept["saved"][0])[0]
    path_arrays = unstack(path)
    arrays = unstack((d_outputs, kept, grams, statistics, mask))
    sides = {"kernel": cell.KERNEL, "recurrent": cell.RECURRENT}
    array_of = spec.gradients
    first_recurrent = sum(of_rows(norm) is not None for norm in spec.kernel)
    first_statistic = spec.scales - statistics_count(of_rows(spec.state))

    def body(k: Any, d_states: Any, groups: Any, second_terms: Any, d_norms: Any) -> Any:
        t = steps - 1 - k
        old, new = read(path_arrays, t), read(path_arrays, t + 1)
        d_outputs, kept, grams, statistics, alive = read(arrays, t)
        scale = kept["scales"]
        batch_norms = column_norms(spec, vectors, alive, statistics=statistics)
        row_norm = StateNorm(of_rows(spec.state), *vectors.of("state"), scale[first_statistic:])
        d = list(d_states)
        for d_output in d_outputs:
            d[0] = d[0] + d_output
        if alive:
            zero = tf.zeros([], dtype)
            held = [tf.where(alive[0], zero, x) for x in d]
            d = [tf.where(alive[0], x, zero) for x in d]
        step = cell.backward(kept["saved"], old, new, d, batch_norms.get(STATE, row_norm))

        products = {
            "kernel": read_gates(spec, projected[0], t) if projected else [],
            "recurrent": kept["product"],
        }
        by_array: dict[int, Any] = {}
        d_vectors = {STATE: step.norm}
        for side, gradient_of in sides.items():
            for group, gates in enumerate(spec.gates):
                dys = []
                for (gate, _), dy in zip(gates, step.groups[gradient_of[group]], strict=True):
                    norm = batch_norms.get(Place(side, gate))
                    if norm is not None:
                        a = products[side][gate]
                        dy, d_vectors[Place(side, gate)] = norm.backward(a, dy)
                    dys.append(dy)
                by_array[array_of[side][group]] = tf.concat(dys, axis=1)

        hs = under(dropout, old[0])
        dh, terms = 0.0, []
        scale_of_group = iter(scale[first_recurrent:first_statistic])
        kernels, grams_at = iter(recurrent), iter(grams)
        for group, blocks in enumerate(spec.blocks(spec.recurrent_masks)):
            dy, columns = by_array[array_of["recurrent"][group]], spec.columns[group]
            es = [block_of(dy, columns, block) @ next(kernels) for _, block in blocks]
            if of_rows(spec.recurrent[group]):
                r = next(scale_of_group)
                hs_of_blocks = [hs[mask] for mask, _ in blocks]
                w = second_term(hs_of_blocks, es, r, columns.stop - columns.start)
                es = [r * e - w * next(grams_at) for e in es]
                terms.append(w)
            for (mask, _), e in zip(blocks, es, strict=True):
                dh = dh + (e * dropout[mask] if dropout else e)
        before = [dh, *step.states[1:]]
        if step.states[0] is not None:
            before[0] = before[0] + step.states[0]
        if alive:
            before = [x + y for x, y in zip(before, held, strict=True)]
        groups = [a.write(t, by_array[i]) for i, a in enumerate(groups)]
        second_terms = [a.write(t, x) for a, x in zip(second_terms, terms, strict=True)]
        d_norms = tf.nest.map_structure(tf.add, d_norms, d_vectors)
        return k + 1, before, groups, second_terms, d_norms

    widths = {
        i: columns.stop - columns.start
        for side in sides
        for i, columns in zip(array_of[side], spec.columns, strict=True)
    }
    groups = [array(dtype, time, None, widths[i]) for i in range(len(widths))]
    second_terms = [array(dtype, time, None, 1) for norm in spec.recurrent if of_rows(norm)]
    d_norms = {place: [tf.zeros([units], dtype)] * 2 for place in spec.batch_norms}
    d_norms[STATE] = [tf.zeros([units], dtype)] * (0 if spec.state is None else 2)
    _, d_states, groups, second_terms, d_norms = tf.while_loop(
        lambda k, *_: k < steps, body, (0, d_states, groups, second_terms, d_norms)
    )
    return Backward(d_states, stack(groups), stack(second_terms), d_norms)


@functools.cache
def backward_program(spec: Spec) -> Callable[..., Backward]:
    """`backward` as an XLA program; one trace serves every batch and time."""
    cell, units = CELLS[spec.cell], spec.units
    blocks = list(zip(spec.recurrent, spec.blocks(spec.recurrent_masks), strict=True))
    normalized = [block for norm, group in blocks if of_rows(norm) for block in group]
    return compiled(
        functools.partial(backward, spec),
        tf.TensorSpec([], "int32"),
        [over_time(spec, units)] * spec.return_sequences,
        [rows(spec)] * cell.STATES,
        [over_time(spec, units)] * cell.STATES,
        tf.nest.map_structure(functools.partial(over_time, spec), spec.kept),
        [over_time(spec, spec.columns[-1].stop)] * spec.keeps_projected,
        [over_time(spec, units)] * len(normalized),
        [
            tf.TensorSpec([columns.stop - columns.start, units], spec.dtype)
            for _, group in blocks
            for _, columns in group
        ],
        statistics_over_time(spec),
        *shared(spec),
    )
