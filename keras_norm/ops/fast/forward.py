"""The forward loop of the fast sequence form."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.ops.fast.cells import CELLS
from keras_norm.ops.fast.columns import ColumnNorm, Statistics
from keras_norm.ops.fast.norms import StateNorm, normalize_product, of_rows
from keras_norm.ops.fast.programs import (
    Vectors,
    array,
    column_norms,
    compiled,
    over_time,
    read,
    rows,
    shared,
    stack,
    statistics_over_time,
    under,
    unstack,
)
from keras_norm.ops.fast.spec import STATE, Place, Spec


class Forward(NamedTuple):
    """What the forward loop leaves; row t of `kept` belongs to timestep t, row t + 1 of `path`.

    `states` are the last ones. `path` has an array (time + 1, batch, units) for each state, from
    the initial one on: for all of them where a backward pass follows, for h where its path is the
    output. `kept` is what a backward pass needs besides, as `Spec.kept` names it. `statistics` are
    those that each learning batch norm used, and `variances` (time, n) those of the batch.
    `scratch` is nothing.
    """

    states: list[Any]
    path: list[Any]
    kept: dict[str, list[Any]]
    statistics: list[Statistics]
    variances: list[Any]
    scratch: Any


def forward(
    spec: Spec,
    training: bool,
    steps: Any,
    projected: Any,
    states: list[Any],
    recurrent: Any,
    moving: list[Statistics],
    vectors: Vectors,
    mask: list[Any],
    dropout: list[Any],
) -> Forward:
    """Run the recurrence.

    Args:
        spec: which one.
        training: whether a backward pass follows.
        steps: number of timesteps; what comes after them is padding.
        projected: x W (time, batch, columns).
        states: the initial states, each (batch, units).
        recurrent: U (units, columns). Both W and U are centred where their norm centres rows.
        moving: of each batch norm.
        vectors: gains and biases.
        mask: [], or [bool (time, batch, 1)].
        dropout: factors of h (batch, units): none, one, or one for each gate.
    """
    cell, units, dtype = CELLS[spec.cell], spec.units, projected.dtype
    blocks = [block for group in spec.blocks(spec.recurrent_masks) for block in group]
    time, batch = tf.shape(projected)[0], tf.shape(projected)[1]
    given = unstack((projected, moving, mask))
    paths = len(states) if training else int(spec.return_sequences)
    path = [array(dtype, time + 1, None, units).write(0, state) for state in states[:paths]]
    widths = spec.kept if training else {}
    kept = tf.nest.map_structure(lambda width: array(dtype, time, None, width), widths)
    learned = [[array(dtype, time, spec.width(place)) for _ in range(3)] for place in spec.learning]

    def body(t: Any, states: Any, path: Any, kept: Any, learned: Any, _: Any) -> Any:
        projected, moving, alive = read(given, t)
        batch_norms = column_norms(spec, vectors, alive, moving=moving)
        hs = under(dropout, states[0])
        products = [hs[mask] @ recurrent[:, columns] for mask, columns in blocks]
        product = products[0] if len(products) == 1 else tf.concat(products, axis=1)
        x, x_scales = _normalize(spec, "kernel", projected, vectors, batch_norms)
        u, u_scales = _normalize(spec, "recurrent", product, vectors, batch_norms)
        row_norm = StateNorm(of_rows(spec.state), *vectors.of("state"), [])
        new, saved = cell.forward(x, u, states, batch_norms.get(STATE, row_norm))
        if alive:
            new = [tf.where(alive[0], n, o) for n, o in zip(new, states, strict=True)]
        path = [a.write(t + 1, state) for a, state in zip(path, new, strict=False)]
        if training:
            scales = [*x_scales, *u_scales, *row_norm.statistics]
            products = [product] * len(kept["product"])
            row = {"saved": saved, "scales": scales, "product": products}
            kept = tf.nest.map_structure(lambda a, x: a.write(t, x), kept, row)
        of_batch = [batch_norms[place] for place in spec.learning]
        learned = [
            [a.write(t, s) for a, s in zip(arrays, [*norm.statistics, norm.variance], strict=True)]
            for arrays, norm in zip(learned, of_batch, strict=True)
        ]
        return t + 1, new, path, kept, learned, saved

    # The last step's `saved` leaves the loop although nobody reads it: XLA would merge all that is
    # elementwise into one kernel otherwise, which it does not vectorize, at three times the time.
    scratch = [tf.zeros([batch, units], dtype)] * cell.SAVED
    _, states, *arrays, scratch = tf.while_loop(
        lambda t, *_: t < steps, body, (0, states, path, kept, learned, scratch)
    )
    path, kept, learned = stack(arrays)
    statistics = [Statistics(mean, r) for mean, r, _ in learned]
    return Forward(states, path, kept, statistics, [variance for *_, variance in learned], scratch)


@functools.cache
def forward_program(spec: Spec, training: bool) -> Callable[..., Forward]:
    """`forward` as an XLA program; one trace serves every batch and time."""
    columns = spec.columns[-1].stop
    return compiled(
        functools.partial(forward, spec, training),
        tf.TensorSpec([], "int32"),
        over_time(spec, columns),
        [rows(spec)] * CELLS[spec.cell].STATES,
        tf.TensorSpec([spec.units, columns], spec.dtype),
        statistics_over_time(spec),
        *shared(spec),
    )


def _normalize(
    spec: Spec, side: str, a: Any, vectors: Vectors, batch_norms: dict[Place, ColumnNorm]
) -> tuple[list[Any], list[Any]]:
    """Each group of a product under its norm, and the scales of those that norm rows."""
    gamma, beta = vectors.of(side)
    groups, scales = [], []
    for group, (columns, norm) in enumerate(zip(spec.columns, spec.norms(side), strict=True)):
        place = Place(side, group)
        if place in batch_norms:
            groups.append(batch_norms[place].forward(a[:, columns]))
            continue
        y, scale = normalize_product(a[:, columns], of_rows(norm), gamma[columns], beta[columns])
        groups.append(y)
        scales += scale
    return groups, scales
