"""A whole recurrence: the products outside the loops, and the gradient."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.rnn.gradient.backward import backward_program
from keras_norm.rnn.gradient.cells import CELLS
from keras_norm.rnn.gradient.columns import Statistics
from keras_norm.rnn.gradient.forward import Forward, forward, forward_program
from keras_norm.rnn.gradient.products import gram, multiply, row_sums
from keras_norm.rnn.gradient.programs import Vectors, under
from keras_norm.rnn.gradient.spec import STATE, Place, Spec


class Arguments(NamedTuple):
    """What a recurrence is a function of.

    `xs` are the inputs (time, batch, features): one, or one for each gate where each has its own
    dropout; `states` the initial states (batch, units); `kernel` W (features, columns) and
    `recurrent` U (units, columns), both under `products.centre`
    as far as `Spec.centred`; `vectors` the gains and biases.
    """

    xs: Sequence[Any]
    states: Sequence[Any]
    kernel: Any
    recurrent: Any
    vectors: Vectors


class Setting(NamedTuple):
    """What a recurrence has besides: no gradient goes there.

    `steps` is the number of timesteps, at most the length of the inputs, the rest of which is
    padding; `moving` the moving statistics of each batch norm, in the order of `Spec.batch_norms`;
    `mask` [] or [bool (time, batch, 1)]; `dropout` the factors of h (batch, units), none, one, or
    one for each gate.
    """

    steps: Any
    moving: list[Statistics]
    mask: list[Any]
    dropout: list[Any]


def recurrence(
    spec: Spec, training: bool, arguments: Arguments, setting: Setting
) -> tuple[list[Any], list[Any], list[tuple[Any, Any]]]:
    """Run a recurrence whose gradient is written by hand.

    Only the chain of states stands in the loops. The gradients of the kernels are single products
    over all timesteps (see `products`).

    Args:
        spec: which recurrence.
        training: whether to keep what the gradient needs, which is else computed again.
        arguments: what it is a function of.
        setting: the rest.

    Returns:
        [h at every timestep (time, batch, units)], or [] without `return_sequences`; the last
        states; and the mean and variance (time, n) of the batch for each learning batch norm.
    """
    # A gradient may ask only for what is made where its conditional is.
    setting = tf.nest.map_structure(tf.identity, setting)

    @tf.custom_gradient
    def run(*flat: Any) -> Any:
        # A tape that watches the programs would have XLA differentiate them.
        given = tf.nest.map_structure(tf.stop_gradient, tf.nest.pack_sequence_as(arguments, flat))
        projected, left = _forward(spec, forward_program(spec, training), given, setting)

        def gradient(*d_results: Any) -> list[Any]:
            complete = left
            if not training:
                _, complete = _forward(spec, forward_program(spec, True), given, setting)
            at = tf.nest.pack_sequence_as(arguments, flat)
            d_results = d_results[: len(_results(spec, left))]
            return _gradient(spec, at, setting, projected, complete, d_results)

        means = [statistics.mean for statistics in left.statistics]
        return [*_results(spec, left), *means, *left.variances], gradient

    results = tf.nest.flatten(run(*tf.nest.flatten(arguments)))
    outputs = int(spec.return_sequences)
    states = outputs + CELLS[spec.cell].STATES
    statistics = [tf.stop_gradient(s) for s in results[states:]]
    norms = len(spec.learning)
    batch = list(zip(statistics[:norms], statistics[norms:], strict=True))
    return results[:outputs], results[outputs:states], batch


def _forward(spec: Spec, loop: Any, given: Arguments, setting: Setting) -> tuple[Any, Forward]:
    """X W, and what the loop makes of it."""
    projected = _over_time(multiply([_rows(x) for x in given.xs], given.kernel), given.xs[0])
    return projected, loop(
        setting.steps,
        projected,
        list(given.states),
        given.recurrent,
        setting.moving,
        given.vectors,
        setting.mask,
        setting.dropout,
    )


def _results(spec: Spec, left: Forward) -> list[Any]:
    """What a forward loop gives that has a gradient, in one list."""
    return [path[1:] for path in left.path[: spec.return_sequences]] + list(left.states)


def _gradient(
    spec: Spec,
    given: Arguments,
    setting: Setting,
    projected: Any,
    left: Forward,
    d_results: Sequence[Any],
) -> list[Any]:
    """The gradient by hand. Its own is that of the loop as TensorFlow differentiates it."""
    flat = tf.nest.flatten(given)

    @tf.custom_gradient
    def first(*both: Any) -> Any:
        still = [tf.stop_gradient(tensor) for tensor in both]
        at = tf.nest.pack_sequence_as(given, still[: len(flat)])
        gradients = _gradients(spec, at, setting, projected, left, still[len(flat) :])

        def second(*dd: Any) -> Any:
            with tf.GradientTape() as outer:
                outer.watch(both)
                with tf.GradientTape() as inner:
                    inner.watch(both[: len(flat)])
                    at = tf.nest.pack_sequence_as(given, both[: len(flat)])
                    _, again = _forward(spec, lambda *a: forward(spec, True, *a), at, setting)
                    results = _results(spec, again)
                gradients = inner.gradient(results, both[: len(flat)], both[len(flat) :], "zero")
            return outer.gradient(gradients, both, dd, "zero")

        return tf.nest.flatten(gradients), second

    return first(*flat, *d_results)


def _gradients(
    spec: Spec,
    given: Arguments,
    setting: Setting,
    projected: Any,
    left: Forward,
    d_results: Sequence[Any],
) -> Arguments:
    """The gradients of all arguments."""
    vectors = given.vectors
    hs = under(setting.dropout, left.path[0][:-1])
    xs, rows = [_rows(x) for x in given.xs], [_rows(h) for h in hs]
    kernel = spec.products("kernel", given.kernel, vectors.kernel_gamma)
    recurrent = spec.products("recurrent", given.recurrent, vectors.recurrent_gamma)
    normalized = [
        (mask, u)
        for product in recurrent
        if product.norm is not None
        for (mask, _), u in zip(product.blocks, product.kernels, strict=True)
    ]
    outputs = int(spec.return_sequences)
    learned = dict(zip(spec.learning, left.statistics, strict=True))
    moving = dict(zip(spec.batch_norms, setting.moving, strict=True))
    back = backward_program(spec)(
        setting.steps,
        list(d_results[:outputs]),
        list(d_results[outputs:]),
        left.path,
        left.kept,
        [projected] * spec.keeps_projected,
        [_over_time(tf.matmul(rows[mask], gram(u)), hs[0]) for mask, u in normalized],
        [row_sums(u) for _, u in normalized],
        [tf.transpose(u) for product in recurrent for u in product.scaled_kernels],
        [learned.get(place, moving[place]) for place in spec.batch_norms],
        vectors,
        setting.mask,
        setting.dropout,
    )

    row_statistics = map(_rows, left.kept["row_statistics"])
    dxs = [tf.zeros([], spec.dtype) for _ in xs]
    d_kernel, d_recurrent = [], []
    for group, product in enumerate(kernel):
        dy = _rows(back.groups[spec.gradients["kernel"][group]])
        statistics = list(islice(row_statistics, spec.statistics("kernel")[group]))
        parts, terms = product.input_gradient(xs, statistics, dy)
        for (mask, _), part in zip(product.blocks, parts, strict=True):
            dxs[mask] = dxs[mask] + part
        blocks = product.kernel_gradient(xs, statistics, terms, dy)
        d_kernel += _with_vectors(blocks, back.norms, spec, "kernel", group)
    for group, product in enumerate(recurrent):
        dy = _rows(back.groups[spec.gradients["recurrent"][group]])
        statistics = list(islice(row_statistics, spec.statistics("recurrent")[group]))
        terms = [_rows(term) for term in back.row_terms[group]]
        blocks = product.kernel_gradient(rows, statistics, terms, dy)
        d_recurrent += _with_vectors(blocks, back.norms, spec, "recurrent", group)
    dw, *d_kernel_vectors = _side_by_side(d_kernel)
    du, *d_recurrent_vectors = _side_by_side(d_recurrent)
    d_state_norm = back.norms[STATE] or [tf.zeros_like(v) for v in vectors.of("state")]
    return Arguments(
        [tf.reshape(dx, tf.shape(x)) for dx, x in zip(dxs, given.xs, strict=True)],
        back.states,
        dw,
        du,
        Vectors(*d_kernel_vectors, *d_recurrent_vectors, *d_state_norm),
    )


def _with_vectors(
    blocks: list[list[Any]], norms: dict[Place, list[Any]], spec: Spec, side: str, group: int
) -> list[list[Any]]:
    """The gradients of a product's blocks, with those of gamma and beta from the loop, if any."""
    places = [Place(side, gate) for gate, _ in spec.gates[group]]
    vectors = [norms[place] for place in places if place in norms]
    return [[_side_by_side(blocks)[0], *_side_by_side(vectors)]] if vectors else blocks


def _side_by_side(blocks: list[list[Any]]) -> list[Any]:
    return [tf.concat(parts, axis=-1) for parts in zip(*blocks, strict=True)]


def _rows(a: Any) -> Any:
    """(time, batch, width) as rows."""
    return tf.reshape(a, [-1, a.shape[-1]])


def _over_time(a: Any, like: Any) -> Any:
    """Rows as (time, batch, width), with the time and batch of another."""
    return tf.reshape(a, tf.concat([tf.shape(like)[:2], [a.shape[-1]]], axis=0))
