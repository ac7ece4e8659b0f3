"""The fast sequence form of a cell: what it covers, and how a cell's weights enter it.

Needs the TensorFlow backend.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.layers.batch_statistics import BatchStatistics
from keras_norm.ops.fast.products import centre
from keras_norm.ops.fast.programs import Vectors
from keras_norm.ops.fast.sequence import Arguments, Setting, fast_sequence
from keras_norm.ops.fast.spec import Spec
from keras_norm.ops.moments import statistics_dtype
from keras_norm.rnn.cell import FastCell, NormCell
from keras_norm.rnn.fast_norms import (
    batch_statistics,
    fast_norm,
    moving_statistics,
    places_of_batch_norms,
)


class Sizes(NamedTuple):
    """Batch and time of sequences, and the time that a program is compiled for: int32 scalars."""

    batch: Any
    time: Any
    padded_time: Any


def sizes_of(sequences: Any) -> Sizes:
    """The sizes of (batch, time, features).

    A time that the graph does not know is rounded up to a power of two, or to one and a half times
    one: a hundred lengths of sequences are a dozen shapes.
    """
    batch, time = tf.unstack(tf.shape(sequences)[:2])
    if sequences.shape[1] is not None:
        return Sizes(batch, time, time)
    lengths = tf.constant(sorted(n * 2**k for n in (2, 3) for k in range(28)))
    return Sizes(batch, time, lengths[tf.searchsorted(lengths, time[None])[0]])


def fast_spec(
    cell: NormCell,
    masked: bool,
    training: bool,
    dropout_masks: tuple[Any, Any],
    return_sequences: bool,
) -> Spec | None:
    """The cell's recurrence as the fast form has it, or None where it does not cover the cell.

    It covers LayerNorm (as `LayerNormalization` computes it by default), RMSNorm and per-timestep
    BatchNorm in any slot, or none, with tanh and sigmoid, in every dtype.
    """
    fast = cell.fast_cell()
    if fast is None or _is_overridden(type(cell)):
        return None
    layers = cell.slot_layers()
    slots = [*fast.kernel_slots, *fast.recurrent_slots, fast.state_slot]
    norms: dict[str, Any] = {slot: fast_norm(layers.get(slot), training) for slot in slots}
    if False in norms.values():
        return None
    masks = [len(_as_list(m)) for m in dropout_masks]
    return Spec(
        fast.name,
        cell.units,
        tuple(norms[slot] for slot in fast.kernel_slots),
        tuple(norms[slot] for slot in fast.recurrent_slots),
        norms[fast.state_slot],
        statistics_dtype(cell.compute_dtype),
        return_sequences,
        masked,
        *masks,
    )


def fast_form(
    cell: NormCell,
    spec: Spec,
    sequences: Any,
    states: list[Any],
    mask: Any,
    training: bool,
    dropout_masks: tuple[Any, Any],
    sizes: Sizes,
    parts: int,
) -> tuple[Any, list[Any], dict[str, BatchStatistics]]:
    """Run a cell over sequences.

    Args:
        cell: a built cell.
        spec: of `fast_spec`.
        sequences: (batch, time, features), in the order of the loop.
        states: initial states, each (batch, units).
        mask: bool (batch, time), or None.
        training: whether a gradient may be asked for.
        dropout_masks: of the inputs and of h, each None, a tensor, or a list of one for each gate.
        sizes: of the sequences.
        parts: into how many the batch is split.

    Returns:
        h at every timestep (batch, time, units), where a masked step repeats the state before it,
        or None without `return_sequences`; the last states; and by slot the statistics (time,
        features) that the batch has at each timestep, as `plain_form` gives them.
    """
    fast: Any = cell.fast_cell()
    layers, places = cell.slot_layers(), places_of_batch_norms(fast, spec)
    moving = [
        statistics
        for slot, there in places.items()
        for statistics in moving_statistics(layers[slot], there, sizes.padded_time, spec.dtype)
    ]
    masks = [] if mask is None else [mask]
    static = sequences.shape[:2]
    if static[1] is None:
        padding = [[0, 0], [0, sizes.padded_time - sizes.time]]
        sequences = tf.pad(sequences, [*padding, [0, 0]])
        masks = [tf.pad(m, padding) for m in masks]
    weights = _weights(cell, fast, spec)
    xs = [sequences * m[:, None, :] for m in _as_list(dropout_masks[0])] or [sequences]
    by_batch = [
        [tf.cast(x, spec.dtype) for x in xs],
        [tf.cast(state, spec.dtype) for state in states],
        [m[:, :, None] for m in masks],
        [tf.cast(m, spec.dtype) for m in _as_list(dropout_masks[1])],
    ]
    outputs, last = [], []
    for xs_part, states_part, masks_part, dropout_part in _split(by_batch, sizes.batch, parts):
        arguments = Arguments([_time_major(x) for x in xs_part], states_part, *weights)
        setting = Setting(sizes.time, moving, [_time_major(m) for m in masks_part], dropout_part)
        path, after, statistics = fast_sequence(spec, training, arguments, setting)
        outputs += [_time_major(h) for h in path]
        last.append(after)

    def joined(of_parts: Any, *shape: int | None) -> Any:
        # One trace of a program serves all sizes, so that what it gives has none.
        whole = tf.cast(tf.concat(of_parts, axis=0), cell.compute_dtype)
        padded = static[1] is None and len(shape) == 3
        return tf.ensure_shape(whole[:, : sizes.time] if padded else whole, shape)

    states = [joined(of_parts, static[0], cell.units) for of_parts in zip(*last, strict=True)]
    of_place = dict(zip(spec.learning, statistics, strict=True))
    learned = {}
    for slot, there in places.items():
        if there[0] in of_place:
            gates = zip(*(of_place[place] for place in there), strict=True)
            mean, variance = [tf.concat(parts, axis=1)[: sizes.time] for parts in gates]
            learned[slot] = batch_statistics(layers[slot], mean, variance, mask, sizes.batch)
    return joined(outputs, *static, cell.units) if outputs else None, states, learned


def _is_overridden(cell: type[NormCell]) -> bool:
    """Whether a subclass computes a step of its own, which the fast form knows nothing of."""
    methods = ("fast_cell", "project_inputs", "step", "dropout_masks")
    owners = [next(c for c in cell.__mro__ if method in vars(c)) for method in methods]
    known = next(c for c in cell.__mro__ if "fast_cell" in vars(c)).__mro__
    return any(owner not in known for owner in owners)


def _weights(cell: NormCell, fast: FastCell, spec: Spec) -> tuple[Any, Any, Vectors]:
    layers = cell.slot_layers()

    def cast(weight: Any) -> Any:
        return tf.cast(tf.convert_to_tensor(weight), spec.dtype)

    def affine(slots: tuple[str, ...], widths: list[int], bias: Any) -> list[Any]:
        gammas, betas = [], []
        for slot, width in zip(slots, widths, strict=True):
            layer = layers.get(slot)
            gamma = getattr(layer, "gamma", getattr(layer, "scale", None))
            beta = getattr(layer, "beta", None)
            gammas.append(tf.ones([width], spec.dtype) if gamma is None else cast(gamma))
            betas.append(tf.zeros([width], spec.dtype) if beta is None else cast(beta))
        beta = tf.concat(betas, axis=0)
        return [tf.concat(gammas, axis=0), beta if bias is None else beta + cast(bias)]

    widths = [columns.stop - columns.start for columns in spec.columns]
    vectors = Vectors(
        *affine(fast.kernel_slots, widths, fast.kernel_bias),
        *affine(fast.recurrent_slots, widths, fast.recurrent_bias),
        *affine((fast.state_slot,), [spec.units], None),
    )
    kernel = centre(cast(cell.kernel), spec.columns, spec.centred("kernel"))
    recurrent = centre(cast(cell.recurrent_kernel), spec.columns, spec.centred("recurrent"))
    return kernel, recurrent, vectors


def _split(by_batch: Any, batch: Any, parts: int) -> list[Any]:
    """Tensors whose first axis is the batch, in as many parts."""
    if parts == 1:
        return [by_batch]
    ends = [batch * k // parts for k in range(parts + 1)]
    sizes = tf.stack([b - a for a, b in pairwise(ends)])
    split = [tf.split(x, sizes, num=parts) for x in tf.nest.flatten(by_batch)]
    return [tf.nest.pack_sequence_as(by_batch, part) for part in zip(*split, strict=True)]


def _time_major(x: Any) -> Any:
    return tf.transpose(x, [1, 0, *range(2, len(x.shape))])


def _as_list(masks: Any) -> list[Any]:
    if masks is None:
        return []
    return list(masks) if isinstance(masks, list | tuple) else [masks]
