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
from keras_norm.rnn.gradient.products import centre, gram, row_sums
from keras_norm.rnn.gradient.programs import Arguments, Setting, Vectors, compiled, traced
from keras_norm.rnn.gradient.spec import STATE, Place, Spec

# XLA compiles a program for every size that comes by. Where the graph does not know them (`fit`
# leaves the batch open), lengths and the rows of a part are rounded up to one of these: a hundred
# lengths are a dozen programs, and a smaller last batch of 32 has the program of the others.
LENGTHS = sorted(n * 2**k for n in (2, 3) for k in range(28))
ROWS = [1, 2, 4, 16, *(16 * n for n in LENGTHS[:-8])]


class Plan(NamedTuple):
    """How the batch is run: in how many parts, side by side; whether batch and time are open.

    Layers that return sequences have the programs of those that do not: a stack compiles once.
    """

    parts: int
    open_batch: bool
    open_time: bool
    return_sequences: bool


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
    `statistics` are mean and variance of each learning batch norm; `kept` is, of each part, x W and
    what its loop left.
    """

    results: list[Any]
    statistics: list[tuple[Any, Any]]
    kept: list[tuple[Any, Forward]]


def _outcome(
    spec: Spec, plan: Plan, training: bool, compiles: bool, given: Arguments, setting: Setting
) -> Outcome:
    """Run a recurrence; for a second gradient nothing is compiled."""
    around, of_loop = (traced, compiled) if compiles else (functools.partial, functools.partial)
    of_part = around(_forward, spec, of_loop(forward, spec, training))
    kept = [of_part(*part) for part in _parts(spec, plan, given, setting)]
    batch, time = tf.unstack(tf.shape(given.xs[0])[:2])
    lefts = [left for _, left in kept]
    states = zip(*(left.states for left in lefts), strict=True)
    results = [tf.concat(of_parts, axis=0)[:batch] for of_parts in states]
    if plan.return_sequences:
        path = tf.concat([left.path[0][1:] for left in lefts], axis=1)
        results.insert(0, _time_major(path)[:batch, :time])
    statistics = [
        (s.mean[:time], variance[:time])
        for s, variance in zip(lefts[0].statistics, lefts[0].variances, strict=True)
    ]
    return Outcome(results, statistics, kept)


def _gradient_of_outcome(
    spec: Spec,
    plan: Plan,
    given: Arguments,
    setting: Setting,
    kept: list[tuple[Any, Forward]],
    d_results: list[Any],
) -> Arguments:
    """The gradients of all that is given."""
    with tf.GradientTape() as tape:
        tape.watch(given)
        parts = _parts(spec, plan, given, setting)
    rows = tf.shape(parts[0][0].states[0])[0]
    time = tf.shape(parts[0][0].xs[0])[0]
    if plan.return_sequences:
        d_path = _time_major(_filled(d_results[0], [plan.parts * rows, time]))
    else:
        d_path = tf.zeros([time, plan.parts * rows, spec.units], spec.dtype)
    d_states = d_results[plan.return_sequences :]
    d_states = [_filled(d, [plan.parts * rows]) for d in d_states]
    of_part, gradients = traced(_gradients, spec), []
    for k, (part, of_loop) in enumerate(zip(parts, kept, strict=True)):
        here = slice(k * rows, (k + 1) * rows)
        d_here = d_path[:, here], [d[here] for d in d_states]
        gradients.append(of_part(*part, *of_loop, *d_here))
    arguments = [part for part, _ in parts]
    return tape.gradient(arguments, given, gradients, unconnected_gradients="zero")


def _gradient(
    spec: Spec,
    plan: Plan,
    given: Arguments,
    setting: Setting,
    kept: list[tuple[Any, Forward]],
    d_results: list[Any],
) -> Arguments:
    """The gradient by hand. Its own is that of the loop as TensorFlow differentiates it."""

    @tf.custom_gradient
    def first(*both: Any) -> Any:
        given, d_results = both
        at, d = tf.nest.map_structure(tf.stop_gradient, both)
        gradients = traced(_gradient_of_outcome, spec, plan)(at, setting, kept, d)

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


def _parts(
    spec: Spec, plan: Plan, given: Arguments, setting: Setting
) -> list[tuple[Arguments, Setting]]:
    """The parts of the batch, filled up to the sizes that programs are compiled for."""
    _tell_rows(spec, given)
    (sequences,), dropout = given.xs, setting.input_dropout
    batch, time = tf.unstack(tf.shape(sequences)[:2])
    rows, length = -(-batch // plan.parts), time
    if plan.open_batch:
        # As many as two parts would have together: so a batch norm's programs are as few.
        rows = _rounded(-(-batch // 2), ROWS) * (2 // plan.parts)
    if plan.open_time:
        length = _rounded(time, LENGTHS)
    size = [plan.parts * rows, length]

    factors = [tf.cast(m[:, None, :], spec.dtype) for m in dropout]

    def over_time(x: Any) -> Any:
        return _time_major(_filled(tf.cast(x, spec.dtype), size))

    def over_batch(x: Any) -> Any:
        return _filled(tf.cast(x, spec.dtype), size[:1])

    xs = [over_time(x) for x in under(factors, tf.cast(sequences, spec.dtype))]
    states = list(map(over_batch, given.states))
    mask = [_time_major(_filled(m, size)) for m in setting.mask]
    moving = tf.nest.map_structure(lambda row: _filled(row, [length]), setting.moving)
    masks = list(map(over_batch, setting.dropout))
    kernel, recurrent = (
        centre(kernel, spec.columns, spec.centred(side))
        for side, kernel in (("kernel", given.kernel), ("recurrent", given.recurrent))
    )
    parts = []
    for part in range(plan.parts):
        here = slice(part * rows, (part + 1) * rows)
        of_part = [x[:, here] for x in xs], [s[here] for s in states]
        arguments = Arguments(*of_part, kernel, recurrent, given.vectors)
        # A part without rows takes one turn: pfor stacks no array that nothing was written to.
        steps = tf.where(part * rows < batch, time, tf.minimum(time, 1))
        rows_of = [m[:, here] for m in mask], [m[here] for m in masks]
        parts.append((arguments, Setting(moving, rows_of[0], [], rows_of[1], steps)))
    return parts


def _tell_rows(spec: Spec, given: Arguments) -> None:
    """Let a trace, which is one for every batch, know how many rows the kernels have."""
    given.kernel.set_shape([given.xs[0].shape[-1], None])
    given.recurrent.set_shape([spec.units, None])


def _rounded(n: Any, sizes: list[int]) -> Any:
    """The least of the sizes that n does not exceed."""
    return tf.constant(sizes)[tf.searchsorted(sizes, n[None])[0]]


def _filled(x: Any, sizes: list[Any]) -> Any:
    """X with zeros after it, so that its first axes have these sizes."""
    there = tf.unstack(tf.shape(x)[: len(sizes)])
    missing = [[0, size - n] for size, n in zip(sizes, there, strict=True)]
    return tf.pad(x, missing + [[0, 0]] * (len(x.shape) - len(sizes)))


def _time_major(x: Any) -> Any:
    """Batch and time in each other's place."""
    return tf.transpose(x, [1, 0, *range(2, len(x.shape))])


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
        for (mask, _), u in zip(product.blocks, product.kernels, strict=True)
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
        [row_sums(u) for _, u in normalized],
        [tf.transpose(u) for product in recurrent for u in product.scaled_kernels],
        [learned.get(place, moving[place]) for place in spec.batch_norms],
        vectors,
        setting._replace(moving=[]),
    )

    row_statistics = tf.nest.map_structure(_rows, left.kept["row_statistics"])
    dxs = [tf.zeros([], spec.dtype) for _ in xs]
    d_kernel, d_recurrent = [], []
    for group, product in enumerate(kernel):
        dy = _rows(back.groups[spec.gradients["kernel"][group]])
        statistics = row_statistics["kernel"][group]
        parts, terms = product.input_gradient(xs, statistics, dy)
        for (mask, _), part in zip(product.blocks, parts, strict=True):
            dxs[mask] = dxs[mask] + part
        blocks = product.kernel_gradient(xs, statistics, terms, dy)
        d_kernel += _with_vectors(blocks, back.norms, "kernel", group)
    for group, product in enumerate(recurrent):
        dy = _rows(back.groups[spec.gradients["recurrent"][group]])
        statistics = row_statistics["recurrent"][group]
        terms = [_rows(term) for term in back.row_terms[group]]
        blocks = product.kernel_gradient(rows, statistics, terms, dy)
        d_recurrent += _with_vectors(blocks, back.norms, "recurrent", group)
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
    blocks: list[list[Any]], norms: dict[Place, list[Any]], side: str, group: int
) -> list[list[Any]]:
    """The gradients of a product's blocks, with those of gamma and beta from the loop, if any."""
    vectors = norms.get(Place(side, group))
    return [[_side_by_side(blocks)[0], *vectors]] if vectors else blocks


def _side_by_side(blocks: list[list[Any]]) -> list[Any]:
    return [tf.concat(parts, axis=-1) for parts in zip(*blocks, strict=True)]


def _rows(a: Any) -> Any:
    """(time, batch, width) as rows."""
    return tf.reshape(a, [-1, a.shape[-1]])


def _over_time(a: Any, like: Any) -> Any:
    """Rows as (time, batch, width), with the time and batch of another."""
    return tf.reshape(a, tf.concat([tf.shape(like)[:2], [a.shape[-1]]], axis=0))
