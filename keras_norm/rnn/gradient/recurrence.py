"""A whole recurrence, differentiated by hand: the products outside the loops, and the gradient.

Only the chain of states stands in the loops. The gradients of the kernels are single products over
all timesteps (see `products`).
"""

import functools
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.keras_internals import xla_compiles
from keras_norm.ops.projection import multiply, under
from keras_norm.rnn.gradient.backward import backward
from keras_norm.rnn.gradient.forward import Forward, forward
from keras_norm.rnn.gradient.parts import Parting, Plan, gradient_of_parts, parting_of, parts_of
from keras_norm.rnn.gradient.products import Product, gram, side_by_side
from keras_norm.rnn.gradient.programs import Arguments, Setting, Vectors, compiled, traced
from keras_norm.rnn.gradient.spec import STATE, Place, Spec


def recurrence(
    spec: Spec, plan: Plan, training: bool, given: Arguments, setting: Setting
) -> tuple[list[Any], list[Any], list[tuple[Any, Any]]]:
    """Run a recurrence whose gradient is written by hand.

    Args:
        spec: which recurrence.
        plan: how it is run.
        training: whether to keep what the gradient needs, which is else computed again.
        given: what it is a function of.
        setting: the rest.

    Returns:
        [h at every timestep (batch, time, units)], or [] without `return_sequences`; the last
        states; and the mean and variance (time, n) of the batch for each learning batch norm.
    """
    # A dropout mask is made like a state: a tape that watches the state would watch the mask.
    setting = tf.nest.map_structure(tf.stop_gradient, setting)

    @tf.custom_gradient
    def run(given: Arguments) -> Any:
        # A tape that watches the programs would have XLA differentiate them.
        still = tf.nest.map_structure(tf.stop_gradient, given)
        outcome = traced(_outcome, spec, plan, training, True)(still, setting)

        def gradient(*d_results: Any) -> Arguments:
            kept = outcome.kept
            if not training:
                kept = traced(_outcome, spec, plan, True, True)(still, setting).kept
            # Rows that were gathered have sparse gradients.
            dense = [tf.convert_to_tensor(d) for d in d_results[: len(outcome.results)]]
            return _gradient(spec, plan, given, setting, kept, dense)

        return (outcome.results, outcome.statistics), gradient

    results, statistics = run(given)
    outputs = int(plan.return_sequences)
    statistics = tf.nest.map_structure(tf.stop_gradient, statistics)
    return results[:outputs], results[outputs:], statistics


class Outcome(NamedTuple):
    """What a recurrence gives.

    `results` have a gradient: h at every timestep, where it is asked for, and the last states;
    `statistics` are mean and variance of each learning batch norm; `kept` is, of each part, what it
    was given, x W, and what its loop left.
    """

    results: list[Any]
    statistics: list[tuple[Any, Any]]
    kept: list[tuple[Arguments, Setting, Any, Forward]]


def _outcome(
    spec: Spec, plan: Plan, training: bool, compiles: bool, given: Arguments, setting: Setting
) -> Outcome:
    """Run a recurrence; for a second gradient nothing is compiled."""
    around, of_loop = (traced, compiled) if compiles else (functools.partial, functools.partial)
    of_part = around(_forward, spec, of_loop(forward, spec, training))
    _tell_rows(spec, given)
    parting = parting_of(plan, given.xs[0])
    kept = [(*part, *of_part(*part)) for part in parts_of(spec, parting, given, setting)]
    lefts = [left for *_, left in kept]
    results = list(map(parting.join, *(left.states for left in lefts)))
    if plan.return_sequences:
        results.insert(0, parting.join_over_time(*(left.path[0][1:] for left in lefts)))
    statistics = [
        (s.mean[: parting.time], variance[: parting.time])
        for s, variance in zip(lefts[0].statistics, lefts[0].variances, strict=True)
    ]
    return Outcome(results, statistics, kept)


def _gradient_of_outcome(
    spec: Spec,
    plan: Plan,
    given: Arguments,
    input_dropout: list[Any],
    kept: list[tuple[Arguments, Setting, Any, Forward]],
    d_results: list[Any],
) -> Arguments:
    """The gradients of all that is given."""
    # The parts tell their sizes, which `parting_of` would round anew.
    batch, time, _ = tf.unstack(tf.shape(given.xs[0]))
    length, rows, _ = tf.unstack(tf.shape(kept[0][0].xs[0]))
    parting = Parting(plan.parts, batch, time, rows, length)
    if plan.return_sequences:
        d_paths = parting.split_over_time(d_results[0])
    else:
        d_paths = [tf.zeros([length, rows, spec.units], spec.dtype)] * plan.parts
    d_states = [parting.split(d) for d in d_results[plan.return_sequences :]]
    of_part = traced(_gradients, spec)
    d_lefts = zip(d_paths, map(list, zip(*d_states, strict=True)), strict=True)
    gradients = [of_part(*part, *d_left) for part, d_left in zip(kept, d_lefts, strict=True)]
    return gradient_of_parts(spec, parting, given, input_dropout, gradients)


def _gradient(
    spec: Spec,
    plan: Plan,
    given: Arguments,
    setting: Setting,
    kept: list[tuple[Arguments, Setting, Any, Forward]],
    d_results: list[Any],
) -> Arguments:
    """The gradient by hand. Its own is that of the loop as TensorFlow differentiates it."""

    @tf.custom_gradient
    def first(*both: Any) -> Any:
        given, d_results = both
        at, d = tf.nest.map_structure(tf.stop_gradient, both)
        of_outcome = traced(_gradient_of_outcome, spec, plan)
        gradients = of_outcome(at, setting.input_dropout, kept, d)

        def second(*dd: Any) -> Any:
            _require_second_gradient(dd[0])
            with tf.GradientTape() as outer:
                outer.watch(both)
                with tf.GradientTape() as inner:
                    inner.watch(given)
                    results = _outcome(spec, plan, True, False, given, setting).results
                gradients = inner.gradient(results, given, d_results, "zero")
            return outer.gradient(gradients, both, dd, "zero")

        return gradients, second

    return first(given, d_results)


def _require_second_gradient(x: Any) -> None:
    """Refuse what would end in zeros, or in an error that names none of this."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.identity(x)
    refused = "Under jit_compile=True the gradient of a gradient" if xla_compiles() else ""
    if tape.gradient(y, x) is None:
        refused = "tf.autodiff.ForwardAccumulator"
    if refused:
        raise NotImplementedError(
            f"{refused} cannot go through the gradient by hand, which a recurrent layer has in "
            "training: give the layer compiled=False."
        )


def _tell_rows(spec: Spec, given: Arguments) -> None:
    """Let a trace, which is one for every batch, know how many rows the kernels have."""
    given.kernel.set_shape([given.xs[0].shape[-1], None])
    given.recurrent.set_shape([spec.units, None])


def _forward(spec: Spec, loop: Any, given: Arguments, setting: Setting) -> tuple[Any, Forward]:
    """X W, and what the loop makes of it."""
    projected = _over_time(multiply([_rows(x) for x in given.xs], given.kernel), given.xs[0])
    return projected, loop(projected, given._replace(xs=[], kernel=[]), setting)


def _gradients(
    spec: Spec,
    given: Arguments,
    setting: Setting,
    projected: Any,
    left: Forward,
    d_path: Any,
    d_states: list[Any],
) -> Arguments:
    """The gradients of all arguments."""
    _tell_rows(spec, given)
    vectors = given.vectors
    hs = under(setting.dropout, left.path[0][:-1])
    xs, rows = [_rows(x) for x in given.xs], [_rows(h) for h in hs]
    kernel = spec.products("kernel", given.kernel, vectors.kernel_gamma)
    recurrent = spec.products("recurrent", given.recurrent, vectors.recurrent_gamma)
    normalized = [
        (mask, u)
        for product in recurrent
        if product.norm is not None
        for mask, u in zip(product.masks, product.kernels, strict=True)
    ]
    learned = dict(zip(spec.learning, left.statistics, strict=True))
    moving = dict(zip(spec.batch_norms, setting.moving, strict=True))
    back = compiled(backward, spec)(
        d_path,
        d_states,
        left.path,
        left.kept,
        [projected] * any(place.side == "kernel" for place in spec.batch_norms),
        [_over_time(tf.matmul(rows[mask], gram(u)), hs[0]) for mask, u in normalized],
        [tf.reduce_sum(u, axis=1) for _, u in normalized],
        [tf.transpose(u) for product in recurrent for u in product.scaled_kernels],
        [learned.get(place, moving[place]) for place in spec.batch_norms],
        vectors,
        setting._replace(moving=[]),
    )

    statistics = tf.nest.map_structure(_rows, left.kept["row_statistics"])
    dys = {side: [_rows(back.groups[k]) for k in own] for side, own in spec.gradients.items()}
    dxs, terms = [tf.zeros([], spec.dtype) for _ in xs], []
    for product, *of_group in zip(kernel, statistics["kernel"], dys["kernel"], strict=True):
        parts, of_rows = product.input_gradient(xs, *of_group)
        terms.append(of_rows)
        for mask, part in zip(product.masks, parts, strict=True):
            dxs[mask] = dxs[mask] + part

    def of_kernel(side: str, products: list[Product], xs: list[Any], terms: Any) -> list[Any]:
        gradients = []
        groups = zip(products, statistics[side], terms, dys[side], strict=True)
        for group, (product, *of_group) in enumerate(groups):
            dw, *vectors = product.kernel_gradient(xs, *of_group)
            gradients.append([dw, *back.norms.get(Place(side, group), vectors)])
        return side_by_side(gradients)

    dw, *d_kernel_vectors = of_kernel("kernel", kernel, xs, terms)
    terms = tf.nest.map_structure(_rows, back.row_terms)
    du, *d_recurrent_vectors = of_kernel("recurrent", recurrent, rows, terms)
    d_state_norm = back.norms[STATE] or [tf.zeros_like(v) for v in vectors.of("state")]
    return Arguments(
        [tf.reshape(dx, tf.shape(x)) for dx, x in zip(dxs, given.xs, strict=True)],
        back.states,
        dw,
        du,
        Vectors(*d_kernel_vectors, *d_recurrent_vectors, *d_state_norm),
    )


def _rows(a: Any) -> Any:
    """(time, batch, width) as rows."""
    return tf.reshape(a, [-1, a.shape[-1]])


def _over_time(a: Any, like: Any) -> Any:
    """Rows as (time, batch, width), with the time and batch of another."""
    time, batch, _ = tf.unstack(tf.shape(like))
    return tf.reshape(a, [time, batch, a.shape[-1]])
