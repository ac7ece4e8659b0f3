"""The forward loop of the gradient by hand."""

from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.ops.projection import multiply, under
from keras_norm.rnn.gradient.cells import CELLS
from keras_norm.rnn.gradient.norms import (
    BatchNormStep,
    StateNorm,
    Statistics,
    of_rows,
    product_statistics,
)
from keras_norm.rnn.gradient.products import split
from keras_norm.rnn.gradient.programs import (
    Arguments,
    Setting,
    Vectors,
    array,
    batch_norms_at,
    read,
    read_gates,
    stack,
    unstack,
)
from keras_norm.rnn.gradient.spec import STATE, Place, Spec


class Forward(NamedTuple):
    """What the forward loop leaves; row t of `kept` belongs to timestep t, row t + 1 of `path`.

    `states` are the last ones. `path` has an array (time + 1, batch, units) for each state, from
    the initial one on: for all of them where a backward pass follows, for h where its path is the
    output. `kept` is what a backward pass needs besides, as `Spec.kept` names it. `statistics` are
    those that each learning batch norm used, and `variances` (time, width) those of the batch.
    """

    states: list[Any]
    path: list[Any]
    kept: dict[str, Any]
    statistics: list[Statistics]
    variances: list[Any]


def forward(
    spec: Spec, training: bool, projected: Any, given: Arguments, setting: Setting
) -> Forward:
    """Run the recurrence.

    Args:
        spec: which one.
        training: whether a backward pass follows.
        projected: x W (time, batch, columns).
        given: a part of the batch, without x and W.
        setting: of that part.
    """
    cell, units, dtype = CELLS[spec.cell], spec.units, projected.dtype
    time, states, vectors = tf.shape(projected)[0], list(given.states), given.vectors
    arrays = unstack((projected, setting.moving, setting.mask))
    paths = len(states) if training else 1
    path = [array(dtype, time + 1, None, units).write(0, state) for state in states[:paths]]
    widths = spec.kept if training else {}
    rows = projected.shape[1]  # an eager array that no step has written wants to know
    kept = tf.nest.map_structure(lambda width: array(dtype, time, rows, width), widths)
    sizes = [spec.widths(place.side)[place.group] for place in spec.learning]
    learned = [[array(dtype, time, size) for _ in range(3)] for size in sizes]

    def body(t: Any, states: Any, path: Any, kept: Any, learned: Any) -> Any:
        x, moving, alive = read(arrays, t)
        batch_norms = batch_norms_at(spec, vectors, alive, moving=moving)
        hs = under(setting.dropout, states[0])
        u = multiply(hs, given.recurrent)
        x_gates, u_gates = read_gates(spec, projected, t), tf.split(u, u.shape[1] // units, axis=1)
        x_normed, x_statistics = _normalize(spec, "kernel", x, x_gates, vectors, batch_norms)
        u_normed, u_statistics = _normalize(spec, "recurrent", u, u_gates, vectors, batch_norms)
        row_norm = StateNorm(of_rows(spec.state), *vectors.of("state"), [])
        new, saved = cell.forward(x_normed, u_normed, states, batch_norms.get(STATE, row_norm))
        if alive:
            new = [tf.where(alive[0], n, o) for n, o in zip(new, states, strict=True)]
        path = [a.write(t + 1, state) for a, state in zip(path, new, strict=False)]
        if training:
            row = {
                "saved": saved,
                "row_statistics": {
                    "kernel": x_statistics,
                    "recurrent": u_statistics,
                    "state": row_norm.statistics,
                },
                "product": [u] * len(kept["product"]),
            }
            kept = tf.nest.map_structure(lambda a, x: a.write(t, x), kept, row)
        of_batch = [batch_norms[place] for place in spec.learning]
        learned = [
            [a.write(t, s) for a, s in zip(arrays, [*norm.statistics, norm.variance], strict=True)]
            for arrays, norm in zip(learned, of_batch, strict=True)
        ]
        return t + 1, new, path, kept, learned

    _, states, *written = tf.while_loop(
        lambda t, *_: t < setting.steps, body, (0, states, path, kept, learned)
    )
    path, kept, learned = stack(written)
    statistics = [Statistics(mean, r) for mean, r, _ in learned]
    return Forward(states, path, kept, statistics, [variance for *_, variance in learned])


def _normalize(
    spec: Spec,
    side: str,
    a: Any,
    gates: list[Any],
    vectors: Vectors,
    batch_norms: dict[Place, BatchNormStep],
) -> tuple[list[Any], list[Any]]:
    """The gates of a product `a` under their norms, and the row statistics of each group."""
    gamma, beta = (tf.split(vector, len(gates)) for vector in vectors.of(side))
    normed, statistics = [], []
    of_groups = split(a, spec.widths())
    groups = zip(spec.gates, of_groups, spec.norms(side), spec.shifted(side), strict=True)
    for k, (group, y, norm, shifted) in enumerate(groups):
        row_norm = of_rows(norm)
        of_group = product_statistics(y, row_norm, shifted) if row_norm else []
        statistics.append(of_group)
        if Place(side, k) in batch_norms:
            y = batch_norms[Place(side, k)].forward(y)
            normed += tf.split(y, len(group), axis=1)
            continue
        for gate in group:
            y = gates[gate]
            if of_group:
                r, *means = of_group
                y = (y - means[0] if means else y) * r * gamma[gate]
            normed.append(y + beta[gate])
    return normed, statistics
