"""The gradient by hand of a cell: what it covers, and how a cell's weights and norms enter it."""

from typing import Any

import tensorflow as tf

from keras_norm.keras_internals import xla_compiles
from keras_norm.layers.batch_statistics import BatchStatistics
from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.rms_norm import RMSNormalization
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.ops.moments import statistics_dtype
from keras_norm.rnn.cell import Layout, NormCell
from keras_norm.rnn.gradient.columns import BatchNorm, Statistics
from keras_norm.rnn.gradient.norms import RowNorm
from keras_norm.rnn.gradient.products import centre
from keras_norm.rnn.gradient.programs import Vectors
from keras_norm.rnn.gradient.recurrence import Arguments, Setting, recurrence
from keras_norm.rnn.gradient.spec import STATE, Norm, Place, Spec

# Two halves of the batch are two XLA programs, which run side by side: one program alone leaves the
# second of two cores all but idle. So the loops took 0.55 to 0.75 of the time at all four shapes of
# the benchmark; four parts took as long as two.
PARTS = 2

# XLA compiles a program for every size that comes by. Where the graph does not know them (`fit`
# leaves the batch open), lengths and the rows of a part are rounded up to one of these: a hundred
# lengths are a dozen programs, and a smaller last batch of 32 has the program of the others.
LENGTHS = sorted(n * 2**k for n in (2, 3) for k in range(28))
ROWS = [1, 2, 4, 16, *(16 * n for n in LENGTHS[:-8])]


def spec_of(
    cell: NormCell,
    sequences: Any,
    mask: Any,
    training: bool,
    dropout_masks: tuple[Any, Any],
    return_sequences: bool,
) -> Spec | None:
    """The cell's recurrence, or None where the gradient by hand does not cover it.

    It covers LayerNorm (as `LayerNormalization` computes it by default), RMSNorm and BatchNorm of
    every timestep in any slot, or none, with tanh and sigmoid, in every dtype.
    """
    layout = cell.layout()
    if layout is None or _is_overridden(type(cell)):
        return None
    layers = cell.slot_layers()
    slots = [*layout.kernel_slots, *layout.recurrent_slots, layout.state_slot]
    norms: dict[str, Any] = {slot: _norm(layers.get(slot), training) for slot in slots}
    if False in norms.values():
        return None
    learning = any(isinstance(norm, BatchNorm) and norm.learning for norm in norms.values())
    return Spec(
        layout.name,
        cell.units,
        tuple(norms[slot] for slot in layout.kernel_slots),
        tuple(norms[slot] for slot in layout.recurrent_slots),
        norms[layout.state_slot],
        statistics_dtype(cell.compute_dtype),
        return_sequences,
        # Rows that fill a batch up must not count in its statistics.
        mask is not None or (learning and _is_open(sequences.shape[0])),
        *(len(_as_list(masks)) for masks in dropout_masks),
    )


def run(
    cell: NormCell,
    spec: Spec,
    sequences: Any,
    states: list[Any],
    mask: Any,
    training: bool,
    dropout_masks: tuple[Any, Any],
) -> tuple[Any, list[Any], dict[str, BatchStatistics]]:
    """Run a cell over sequences. Arguments and results are those of `loop.run`.

    Args:
        cell: a built cell.
        spec: of `spec_of`.
        sequences: (batch, time, features), in the order of the loop.
        states: initial states, each (batch, units).
        mask: bool (batch, time), or None.
        training: whether to keep what the gradient needs, which is else computed again.
        dropout_masks: of the inputs and of h, each None, a tensor, or a list of one for each gate.
    """
    batch, time = tf.unstack(tf.shape(sequences)[:2])
    # What is normalized over the batch cannot be split, nor is there a second core within XLA.
    whole = spec.learning or sequences.shape[0] == 1 or xla_compiles() or _has_gpu()
    parts = 1 if whole else PARTS
    rows = _rounded(-(-batch // PARTS), ROWS) if _is_open(sequences.shape[0]) else -(-batch // parts)
    rows = rows * PARTS if whole and _is_open(sequences.shape[0]) else rows
    length = _rounded(time, LENGTHS) if _is_open(sequences.shape[1]) else time
    missing = [[0, parts * rows - batch], [0, length - time], [0, 0]]
    if mask is None and spec.masked:
        mask = tf.ones([batch, time], "bool")

    xs = [sequences * m[:, None, :] for m in _as_list(dropout_masks[0])] or [sequences]
    by_batch = [
        [tf.cast(tf.pad(x, missing), spec.dtype) for x in xs],
        [tf.cast(tf.pad(state, missing[::2]), spec.dtype) for state in states],
        [] if mask is None else [tf.pad(mask, missing[:2])[:, :, None]],
        [tf.cast(tf.pad(m, missing[::2]), spec.dtype) for m in _as_list(dropout_masks[1])],
    ]
    layout: Any = cell.layout()
    layers, places = cell.slot_layers(), _places_of_batch_norms(layout, spec)
    moving = [
        statistics
        for slot, there in places.items()
        for statistics in _moving_statistics(layers[slot], there, length, spec.dtype)
    ]
    weights = _weights(cell, layout, spec)
    paths, last = [], []
    for part in range(parts):
        here = slice(part * rows, (part + 1) * rows)
        xs_here, states_here, mask_here, dropout_here = tf.nest.map_structure(
            lambda x, here=here: x[here], by_batch
        )
        steps = tf.where(part * rows < batch, time, 0)
        arguments = Arguments([_time_major(x) for x in xs_here], states_here, *weights)
        setting = Setting(steps, moving, [_time_major(m) for m in mask_here], dropout_here)
        path, after, statistics = recurrence(spec, training, arguments, setting)
        paths += [_time_major(h) for h in path]
        last.append(after)

    # One trace of a program serves all sizes, so that what it gives has none.
    sizes = (*sequences.shape[:2], cell.units)
    path = None
    if paths:
        path = tf.ensure_shape(tf.concat(paths, axis=0)[:batch, :time], sizes)
    states = [
        tf.ensure_shape(tf.concat(of_parts, axis=0)[:batch], sizes[::2])
        for of_parts in zip(*last, strict=True)
    ]
    of_place = dict(zip(spec.learning, statistics, strict=True))
    learned = {}
    for slot, there in places.items():
        if there[0] in of_place:
            gates = zip(*(of_place[place] for place in there), strict=True)
            mean, variance = [tf.concat(of_gates, axis=1)[:time] for of_gates in gates]
            learned[slot] = _batch_statistics(layers[slot], mean, variance, mask, batch)
    return path, states, learned


def _is_open(size: int | None) -> bool:
    """Whether programs must serve more sizes than the one at hand."""
    return size is None or tf.executing_eagerly()


def _rounded(n: Any, sizes: list[int]) -> Any:
    """The least of the sizes that n does not exceed."""
    return tf.constant(sizes)[tf.searchsorted(sizes, n[None])[0]]


def _has_gpu() -> bool:
    return bool(tf.config.list_logical_devices("GPU"))


def _is_overridden(cell: type[NormCell]) -> bool:
    """Whether a subclass computes a step of its own, which the gradient by hand knows nothing of."""
    methods = ("layout", "project_inputs", "step", "step_weights", "dropout_masks")
    owners = [next(c for c in cell.__mro__ if method in vars(c)) for method in methods]
    known = next(c for c in cell.__mro__ if "layout" in vars(c)).__mro__
    return any(owner not in known for owner in owners)


def _norm(layer: Any, training: bool) -> Norm | bool:
    """The norm that a slot's layer computes, None for no layer, False for one not covered."""
    if layer is None:
        return None
    if type(layer) is LayerNormalization:
        covered = layer.epsilon_placement == "inside" and layer.ddof == 0
        return covered and RowNorm(True, layer.epsilon)
    if type(layer) is TimestepBatchNormalization:
        return BatchNorm(layer.epsilon, learning=bool(training and layer.trainable))
    return type(layer) is RMSNormalization and RowNorm(False, layer.epsilon)


def _places_of_batch_norms(layout: Layout, spec: Spec) -> dict[str, list[Place]]:
    """The places, of one gate each, that the batch norm in each slot has."""
    sides = {"kernel": layout.kernel_slots, "recurrent": layout.recurrent_slots}
    places = {
        slot: [Place(side, gate) for gate, _ in gates]
        for side, slots in sides.items()
        for slot, gates in zip(slots, spec.gates, strict=True)
    }
    places[layout.state_slot] = [STATE]
    return {slot: there for slot, there in places.items() if there[0] in spec.batch_norms}


def _moving_statistics(layer: Any, places: list[Place], time: Any, dtype: str) -> list[Statistics]:
    """The moving statistics (time, units) that stand for each timestep, for each place."""
    mean, variance = layer.statistics.at(tf.range(time), dtype)
    r = tf.math.rsqrt(variance + layer.epsilon)
    gates = [tf.split(s, len(places), axis=1) for s in (mean, r)]
    return list(map(Statistics, *gates))


def _batch_statistics(
    layer: Any, mean: Any, variance: Any, mask: Any, batch: Any
) -> BatchStatistics:
    """What the batch tells the moving statistics, as `normalize_batch` does.

    Args:
        layer: a `TimestepBatchNormalization`.
        mean: of the batch at each timestep (time, features).
        variance: the biased one.
        mask: bool (batch, time), or None.
        batch: number of sequences.
    """
    if mask is None:
        n = tf.cast(batch, mean.dtype)[None, None]
    else:
        n = tf.reduce_sum(tf.cast(mask, mean.dtype), axis=0)[:, None]
    if layer.unbiased_variance:
        variance *= n / tf.maximum(n - 1.0, 1.0)
    return BatchStatistics(mean, variance, n >= 2.0)


def _weights(cell: NormCell, layout: Layout, spec: Spec) -> tuple[Any, Any, Vectors]:
    layers, weights = cell.slot_layers(), cell.step_weights()

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
        *affine(layout.kernel_slots, widths, weights.bias),
        *affine(layout.recurrent_slots, widths, weights.recurrent_bias),
        *affine((layout.state_slot,), [spec.units], None),
    )
    kernel = centre(cast(weights.kernel), spec.columns, spec.centred("kernel"))
    recurrent = centre(cast(weights.recurrent_kernel), spec.columns, spec.centred("recurrent"))
    return kernel, recurrent, vectors


def _time_major(x: Any) -> Any:
    return tf.transpose(x, [1, 0, *range(2, len(x.shape))])


def _as_list(masks: Any) -> list[Any]:
    if masks is None:
        return []
    return list(masks) if isinstance(masks, list | tuple) else [masks]
