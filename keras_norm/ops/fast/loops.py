"""The two loops over time of the fast sequence form, as XLA programs.

Batch and time may be of any size: XLA compiles a program for each pair that comes by.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.ops.fast.cells import CELLS
from keras_norm.ops.fast.norms import RowNorm, StateNorm, normalize_product, statistics_count
from keras_norm.ops.fast.products import block_of, second_term
from keras_norm.ops.fast.spec import Spec


class Vectors(NamedTuple):
    """The gains and biases of all groups of x W, of h U, and of the state norm."""

    kernel_gamma: Any
    kernel_beta: Any
    recurrent_gamma: Any
    recurrent_beta: Any
    state_gamma: Any
    state_beta: Any


class Forward(NamedTuple):
    """What the forward loop leaves; row t + 1 of an array belongs to timestep t.

    `states` are the last ones. `path` has an array (time + 1, batch, units) for each state, from
    the initial one on: for all of them where a backward pass follows, for h where its path is the
    output. `saved` is what the cell's backward pass needs, `scales` what the norms' do: the scales
    of the groups of x W, then of h U, then the statistics of the state norm. `scratch` is nothing.
    """

    states: list[Any]
    path: list[Any]
    saved: list[Any]
    scales: list[Any]
    scratch: Any


class Backward(NamedTuple):
    """What the backward loop leaves.

    Gradients of the initial `states`; of the `groups` that the cell names, each (time, batch,
    width); the second terms w (time, batch, 1) of the normalized groups of h U; and the gradients
    of the state norm's gamma and beta.
    """

    states: list[Any]
    groups: list[Any]
    second_terms: list[Any]
    norm: list[Any]


def forward(
    spec: Spec,
    training: bool,
    steps: Any,
    projected: Any,
    states: list[Any],
    recurrent: Any,
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
        recurrent: U (units, columns). Both W and U are centred where their norm centres.
        vectors: gains and biases.
        mask: [], or [bool (time, batch, 1)].
        dropout: factors of h (batch, units): none, one, or one for each gate.
    """
    cell, units = CELLS[spec.cell], spec.units
    blocks = [block for group in spec.blocks(spec.recurrent_masks) for block in group]
    time, batch = tf.shape(projected)[0], tf.shape(projected)[1]
    read, *read_mask = [_unstack(array) for array in (projected, *mask)]
    paths = len(states) if training else int(spec.return_sequences)
    widths = [units] * paths + ([cell.SAVED * units] + [spec.scales] * bool(spec.scales)) * training
    arrays = [_array(projected.dtype, time + 1, width) for width in widths]
    arrays[:paths] = [a.write(0, s) for a, s in zip(arrays, states, strict=False)]

    def body(t: Any, states: Any, arrays: Any, _: Any) -> Any:
        hs = under(dropout, states[0])
        products = [hs[mask] @ recurrent[:, columns] for mask, columns in blocks]
        product = products[0] if len(products) == 1 else tf.concat(products, axis=1)
        x, kernel_scales = _normalize(
            spec, read.read(t), spec.kernel, vectors.kernel_gamma, vectors.kernel_beta
        )
        u, recurrent_scales = _normalize(
            spec, product, spec.recurrent, vectors.recurrent_gamma, vectors.recurrent_beta
        )
        norm = StateNorm(spec.state, vectors.state_gamma, vectors.state_beta, [])
        new, saved = cell.forward(x, u, states, norm)
        for array in read_mask:
            alive = array.read(t)
            new = [tf.where(alive, n, o) for n, o in zip(new, states, strict=True)]
        row = [*new[:paths], saved]
        if spec.scales:
            row.append(tf.concat([*kernel_scales, *recurrent_scales, *norm.statistics], axis=1))
        arrays = [array.write(t + 1, value) for array, value in zip(arrays, row, strict=False)]
        return t + 1, new, arrays, saved

    # The last step's `saved` leaves the loop although nobody reads it: XLA would merge all that is
    # elementwise into one kernel otherwise, which it does not vectorize, at three times the time.
    scratch = tf.zeros([batch, cell.SAVED * units], projected.dtype)
    _, states, arrays, scratch = tf.while_loop(
        lambda t, *_: t < steps, body, (0, states, arrays, scratch)
    )
    arrays = [array.stack() for array in arrays]
    return Forward(states, arrays[:paths], arrays[paths : paths + 1], arrays[paths + 1 :], scratch)


def backward(
    spec: Spec,
    steps: Any,
    d_outputs: list[Any],
    d_states: list[Any],
    path: list[Any],
    saved: Any,
    scales: list[Any],
    grams: list[Any],
    recurrent: list[Any],
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
        saved: of `Forward`.
        scales: of `Forward`.
        grams: h G (time, batch, units) for each block of a normalized group of h U, where h is the
            state before the step, under dropout.
        recurrent: (gamma U)^T (width, units) for each block.
        vectors: gains and biases.
        mask: as for `forward`.
        dropout: as for `forward`.
    """
    cell, units = CELLS[spec.cell], spec.units
    time = tf.shape(saved)[0] - 1
    dtype = saved.dtype
    read_outputs, read_path, read_scales, read_grams, read_mask = [
        [_unstack(array) for array in arrays] for arrays in (d_outputs, path, scales, grams, mask)
    ]
    read_saved = _unstack(saved)
    widths = [0] * (1 + max(cell.KERNEL + cell.RECURRENT))
    for group, columns in zip(cell.KERNEL + cell.RECURRENT, spec.columns * 2, strict=True):
        widths[group] = columns.stop - columns.start
    first_recurrent = sum(norm is not None for norm in spec.kernel)
    first_statistic = spec.scales - statistics_count(spec.state)

    def body(k: Any, d_states: Any, groups: Any, second_terms: Any, d_norm: Any) -> Any:
        t = steps - 1 - k
        old, new = [[array.read(t + i) for array in read_path] for i in (0, 1)]
        row = read_scales[0].read(t + 1) if read_scales else None
        scale = [row[:, i : i + 1] for i in range(spec.scales)]
        norm = StateNorm(
            spec.state, vectors.state_gamma, vectors.state_beta, scale[first_statistic:]
        )
        d = list(d_states)
        for array in read_outputs:
            d[0] = d[0] + array.read(t)
        held = None
        for array in read_mask:
            alive = array.read(t)
            zero = tf.zeros([], dtype)
            held = [tf.where(alive, zero, x) for x in d]
            d = [tf.where(alive, x, zero) for x in d]
        step = cell.backward(read_saved.read(t + 1), old, new, d, norm)

        hs = under(dropout, old[0])
        dh, terms = 0.0, []
        scale_of_group = iter(scale[first_recurrent:first_statistic])
        kernels, grams_at = iter(recurrent), iter(read_grams)
        for group, row_norm, columns, blocks in zip(
            cell.RECURRENT,
            spec.recurrent,
            spec.columns,
            spec.blocks(spec.recurrent_masks),
            strict=True,
        ):
            dy = step.groups[group]
            es = [block_of(dy, columns, block) @ next(kernels) for _, block in blocks]
            if row_norm is not None:
                r = next(scale_of_group)
                rows = [hs[mask] for mask, _ in blocks]
                w = second_term(rows, es, r, columns.stop - columns.start)
                es = [r * e - w * next(grams_at).read(t) for e in es]
                terms.append(w)
            for (mask, _), e in zip(blocks, es, strict=True):
                dh = dh + (e * dropout[mask] if dropout else e)
        before = [dh, *step.states[1:]]
        if step.states[0] is not None:
            before[0] = before[0] + step.states[0]
        if held is not None:
            before = [x + y for x, y in zip(before, held, strict=True)]
        groups = [a.write(t, x) for a, x in zip(groups, step.groups, strict=True)]
        second_terms = [a.write(t, x) for a, x in zip(second_terms, terms, strict=True)]
        d_norm = [x + y for x, y in zip(d_norm, step.norm, strict=True)]
        return k + 1, before, groups, second_terms, d_norm

    groups = [_array(dtype, time, width) for width in widths]
    second_terms = [_array(dtype, time, 1) for norm in spec.recurrent if norm is not None]
    d_norm = [tf.zeros([units], dtype)] * (2 if spec.state else 0)
    _, d_states, groups, second_terms, d_norm = tf.while_loop(
        lambda k, *_: k < steps, body, (0, d_states, groups, second_terms, d_norm)
    )
    groups, second_terms = [[a.stack() for a in arrays] for arrays in (groups, second_terms)]
    return Backward(d_states, groups, second_terms, d_norm)


@functools.cache
def forward_program(spec: Spec, training: bool) -> Callable[..., Forward]:
    """`forward` as an XLA program; one trace serves every batch and time."""
    columns = spec.columns[-1].stop
    return _compiled(
        functools.partial(forward, spec, training),
        tf.TensorSpec([], "int32"),
        _over_time(spec, columns),
        [_rows(spec)] * CELLS[spec.cell].STATES,
        tf.TensorSpec([spec.units, columns], spec.dtype),
        *_shared(spec),
    )


@functools.cache
def backward_program(spec: Spec) -> Callable[..., Backward]:
    """`backward` as an XLA program; one trace serves every batch and time."""
    cell, units = CELLS[spec.cell], spec.units
    blocks = list(zip(spec.recurrent, spec.blocks(spec.recurrent_masks), strict=True))
    normalized = [block for norm, group in blocks if norm is not None for block in group]
    return _compiled(
        functools.partial(backward, spec),
        tf.TensorSpec([], "int32"),
        [_over_time(spec, units)] * spec.return_sequences,
        [_rows(spec)] * cell.STATES,
        [_over_time(spec, units)] * cell.STATES,
        _over_time(spec, cell.SAVED * units),
        [_over_time(spec, spec.scales)] * bool(spec.scales),
        [_over_time(spec, units)] * len(normalized),
        [
            tf.TensorSpec([columns.stop - columns.start, units], spec.dtype)
            for _, group in blocks
            for _, columns in group
        ],
        *_shared(spec),
    )


def under(dropout: list[Any], h: Any) -> list[Any]:
    """H under each dropout mask, or as it is."""
    return [h * mask for mask in dropout] if dropout else [h]


def _compiled(function: Callable[..., Any], *signature: Any) -> Callable[..., Any]:
    """The function as an XLA program.

    A concrete function: calling a `tf.function` with jit_compile puts its caller into the context
    of XLA for as long as it takes, in which TensorFlow cannot differentiate a conditional.
    """
    compiled = tf.function(function, jit_compile=True, autograph=False, input_signature=signature)
    with tf.init_scope():
        return compiled.get_concrete_function()


def _shared(spec: Spec) -> list[Any]:
    """The signature of the vectors, the mask and the dropout."""
    columns = spec.columns[-1].stop
    vectors = Vectors(*[tf.TensorSpec([n], spec.dtype) for n in [columns] * 4 + [spec.units] * 2])
    mask = [tf.TensorSpec([None, None, 1], "bool")] * spec.masked
    return [vectors, mask, [_rows(spec)] * spec.recurrent_masks]


def _rows(spec: Spec) -> Any:
    return tf.TensorSpec([None, spec.units], spec.dtype)


def _over_time(spec: Spec, width: int) -> Any:
    return tf.TensorSpec([None, None, width], spec.dtype)


def _normalize(
    spec: Spec, a: Any, norms: tuple[RowNorm | None, ...], gamma: Any, beta: Any
) -> tuple[list[Any], list[Any]]:
    """Each group of a product under its norm, and the scales of those that have one."""
    groups, scales = [], []
    for columns, norm in zip(spec.columns, norms, strict=True):
        group, scale = normalize_product(a[:, columns], norm, gamma[columns], beta[columns])
        groups.append(group)
        scales += scale
    return groups, scales


def _array(dtype: Any, time: Any, width: int) -> Any:
    return tf.TensorArray(dtype, time, element_shape=[None, width])


def _unstack(array: Any) -> Any:
    return tf.TensorArray(array.dtype, tf.shape(array)[0], element_shape=array.shape[1:]).unstack(
        array
    )
