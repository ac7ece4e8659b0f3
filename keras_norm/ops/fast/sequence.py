"""A whole recurrence in its fast form: the products outside the loops, and the gradient."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.ops.fast.cells import CELLS
from keras_norm.ops.fast.loops import (
    Forward,
    Vectors,
    backward_program,
    forward,
    forward_program,
    under,
)
from keras_norm.ops.fast.products import gram
from keras_norm.ops.fast.spec import Spec


class Arguments(NamedTuple):
    """What a recurrence is a function of.

    `xs` are the inputs (time, batch, features): one, or one for each gate where each has its own
    dropout; `states` the initial states (batch, units); `kernel` W (features, columns) and
    `recurrent` U (units, columns), both under `products.centre`; `vectors` the gains and biases.
    """

    xs: Sequence[Any]
    states: Sequence[Any]
    kernel: Any
    recurrent: Any
    vectors: Vectors


class Setting(NamedTuple):
    """What a recurrence has besides: no gradient goes there.

    `steps` is the number of timesteps, at most the length of the inputs, the rest of which is
    padding; `mask` [] or [bool (time, batch, 1)]; `dropout` the factors of h (batch, units), none,
    one, or one for each gate.
    """

    steps: Any
    mask: list[Any]
    dropout: list[Any]


def fast_sequence(
    spec: Spec, training: bool, arguments: Arguments, setting: Setting
) -> tuple[list[Any], list[Any]]:
    """Run a recurrence whose gradient is written by hand.

    Only the chain of states stands in the loops. The gradients of the kernels are single products
    over all timesteps (see `products`).

    Args:
        spec: which recurrence.
        training: whether to keep what the gradient needs, which is else computed again.
        arguments: what it is a function of.
        setting: the rest.

    Returns:
        [h at every timestep (time, batch, units)], or [] without `return_sequences`; and the last
        states.
    """

    @tf.custom_gradient
    def run(*flat: Any) -> Any:
        # A tape that watches the programs would have XLA differentiate them.
        given = tf.nest.map_structure(tf.stop_gradient, tf.nest.pack_sequence_as(arguments, flat))
        left = _forward(spec, forward_program(spec, training), given, setting)

        def gradient(*d_results: Any) -> list[Any]:
            complete = left
            if not training:
                complete = _forward(spec, forward_program(spec, True), given, setting)
            at = tf.nest.pack_sequence_as(arguments, flat)
            return _gradient(spec, at, setting, complete, d_results)

        return _results(spec, left), gradient

    results = tf.nest.flatten(run(*tf.nest.flatten(arguments)))
    outputs = int(spec.return_sequences)
    return results[:outputs], results[outputs:]


def _forward(spec: Spec, loop: Any, given: Arguments, setting: Setting) -> Forward:
    products = [
        tf.matmul(_rows(given.xs[mask]), given.kernel[:, columns])
        for group in spec.blocks(spec.kernel_masks)
        for mask, columns in group
    ]
    projected = _over_time(tf.concat(products, axis=1), given.xs[0])
    return loop(
        setting.steps,
        projected,
        list(given.states),
        given.recurrent,
        given.vectors,
        setting.mask,
        setting.dropout,
    )


def _results(spec: Spec, left: Forward) -> list[Any]:
    """What the caller sees of a forward loop, in one list."""
    return [path[1:] for path in left.path[: spec.return_sequences]] + list(left.states)


def _gradient(
    spec: Spec, given: Arguments, setting: Setting, left: Forward, d_results: Sequence[Any]
) -> list[Any]:
    """The gradient by hand. Its own is that of the loop as TensorFlow differentiates it."""
    flat = tf.nest.flatten(given)

    @tf.custom_gradient
    def first(*both: Any) -> Any:
        still = [tf.stop_gradient(tensor) for tensor in both]
        at = tf.nest.pack_sequence_as(given, still[: len(flat)])
        gradients = _gradients(spec, at, setting, left, still[len(flat) :])

        def second(*dd: Any) -> Any:
            with tf.GradientTape() as outer:
                outer.watch(both)
                with tf.GradientTape() as inner:
                    inner.watch(both[: len(flat)])
                    at = tf.nest.pack_sequence_as(given, both[: len(flat)])
                    again = _forward(spec, lambda *a: forward(spec, True, *a), at, setting)
                    results = _results(spec, again)
                gradients = inner.gradient(results, both[: len(flat)], both[len(flat) :], "zero")
            return outer.gradient(gradients, both, dd, "zero")

        return tf.nest.flatten(gradients), second

    return first(*flat, *d_results)


def _gradients(
    spec: Spec, given: Arguments, setting: Setting, left: Forward, d_results: Sequence[Any]
) -> Arguments:
    """The gradients of all arguments."""
    cell, vectors = CELLS[spec.cell], given.vectors
    hs = under(setting.dropout, left.path[0][:-1])
    xs, rows = [_rows(x) for x in given.xs], [_rows(h) for h in hs]
    kernel = spec.products(spec.kernel, spec.kernel_masks, given.kernel, vectors.kernel_gamma)
    recurrent = spec.products(
        spec.recurrent, spec.recurrent_masks, given.recurrent, vectors.recurrent_gamma
    )
    grams = [
        _over_time(tf.matmul(rows[mask], gram(u)), hs[0])
        for product in recurrent
        if product.norm is not None
        for (mask, _), u in zip(product.blocks, product.kernels, strict=True)
    ]
    outputs = int(spec.return_sequences)
    back = backward_program(spec)(
        setting.steps,
        list(d_results[:outputs]),
        list(d_results[outputs:]),
        left.path,
        left.saved[0],
        left.scales,
        grams,
        [tf.transpose(u) for product in recurrent for u in product.scaled_kernels],
        vectors,
        setting.mask,
        setting.dropout,
    )

    scales = iter(tf.split(_rows(left.scales[0][1:]), spec.scales, axis=1) if spec.scales else [])
    second_terms = (_rows(w) for w in back.second_terms)
    dxs = [tf.zeros([], spec.dtype) for _ in xs]
    d_kernel, d_recurrent = [], []
    for product, group in zip(kernel, cell.KERNEL, strict=True):
        dy = _rows(back.groups[group])
        r = None if product.norm is None else next(scales)
        parts, w = product.input_gradient(xs, r, dy)
        for (mask, _), part in zip(product.blocks, parts, strict=True):
            dxs[mask] = dxs[mask] + part
        d_kernel += product.kernel_gradient(xs, r, w, dy)
    for product, group in zip(recurrent, cell.RECURRENT, strict=True):
        r, w = (None, None) if product.norm is None else (next(scales), next(second_terms))
        d_recurrent += product.kernel_gradient(rows, r, w, _rows(back.groups[group]))
    dw, *d_kernel_vectors = _side_by_side(d_kernel)
    du, *d_recurrent_vectors = _side_by_side(d_recurrent)
    d_norm = back.norm or [tf.zeros_like(v) for v in (vectors.state_gamma, vectors.state_beta)]
    return Arguments(
        [tf.reshape(dx, tf.shape(x)) for dx, x in zip(dxs, given.xs, strict=True)],
        back.states,
        dw,
        du,
        Vectors(*d_kernel_vectors, *d_recurrent_vectors, *d_norm),
    )


def _side_by_side(blocks: list[list[Any]]) -> list[Any]:
    return [tf.concat(parts, axis=-1) for parts in zip(*blocks, strict=True)]


def _rows(a: Any) -> Any:
    """(time, batch, width) as rows."""
    return tf.reshape(a, [-1, a.shape[-1]])


def _over_time(a: Any, like: Any) -> Any:
    """Rows as (time, batch, width), with the time and batch of another."""
    return tf.reshape(a, tf.concat([tf.shape(like)[:2], [a.shape[-1]]], axis=0))
