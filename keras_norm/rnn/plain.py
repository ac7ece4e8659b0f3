"""The plain sequence form: one loop over time, differentiated by the backend."""

from typing import Any

from keras import ops

from keras_norm.layers.batch_statistics import BatchStatistics
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.ops.moments import statistics_dtype
from keras_norm.ops.time_loop import LoopResult, time_loop
from keras_norm.rnn import norms
from keras_norm.rnn.cell import NormCell


def plain_form(
    cell: NormCell,
    sequences: Any,
    states: list[Any],
    mask: Any,
    training: bool,
    dropout_masks: tuple[Any, Any],
    **loop_options: Any,
) -> tuple[LoopResult, dict[str, BatchStatistics]]:
    """Run a normalized cell over whole sequences.

    All that needs no state is computed before the loop, for all timesteps at once.

    Args:
        cell: a built cell.
        sequences: (batch, time, features), in the order of the loop.
        states: initial states, each (batch, units).
        mask: bool (batch, time), True where a sequence is alive; or None.
        training: whether batch statistics are on.
        dropout_masks: of the inputs and of the first state, as `NormCell.dropout_masks` gives them.
        **loop_options: of `time_loop`.

    Returns:
        The loop's result, its outputs (time, batch, units); and by slot the statistics (time,
        features) that the batch has at each timestep, for its moving statistics to move towards.
    """
    layers = cell.slot_layers()
    steps = ops.arange(ops.shape(sequences)[1])
    dtype = statistics_dtype(cell.compute_dtype)
    learned: dict[str, BatchStatistics] = {}

    def norm_all(slot: str, x: Any) -> Any:
        layer = layers.get(slot)
        if layer is None:
            return x
        if not (isinstance(layer, TimestepBatchNormalization) and training and layer.trainable):
            return norms.normalize_sequence(layer, x, mask, training)
        alive = None if mask is None else ops.expand_dims(mask, -1)
        moving = layer.statistics.at(steps, dtype)
        y, batch = layer.normalize_batch(x, 2, [0], moving, alive, fewest=2)
        learned[slot] = BatchStatistics(*(statistic[0] for statistic in batch))
        return y

    input_masks, recurrent_masks = dropout_masks
    x = cell.project_inputs(sequences, input_masks, norm_all)

    looped = {
        slot: layer
        for slot, layer in layers.items()
        if norms.keeps_statistics(layer) and slot not in norms.INPUT_SLOTS
    }
    learning = [slot for slot, layer in looped.items() if training and layer.trainable]
    rows = [row for layer in looped.values() for row in layer.statistics.at(steps, dtype)]

    def step(xs: list[Any], states: list[Any], alive: Any) -> tuple[list[Any], list[Any]]:
        x, *flat = xs
        moving = {slot: (flat[2 * i], flat[2 * i + 1]) for i, slot in enumerate(looped)}
        batch: dict[str, BatchStatistics] = {}

        def norm(slot: str, x: Any) -> Any:
            layer = layers.get(slot)
            if layer is None:
                return x
            if slot not in looped:
                return norms.call_layer(layer, x, training)
            if slot not in learning:
                return layer.normalize_moving(x, 1, *moving[slot])
            # One sequence alone has no variance, whatever the layer's own rule.
            y, batch[slot] = layer.normalize_batch(x, 1, [0], moving[slot], alive, fewest=2)
            return y

        new = cell.step(x, states, recurrent_masks, norm)
        return new, [ops.reshape(s, (-1,)) for slot in learning for s in batch[slot]]

    collected_like = []
    for slot in learning:
        statistic = ops.zeros((looped[slot].moving_mean.shape[-1],), dtype)
        collected_like += [statistic, statistic, ops.zeros((1,), "bool")]
    result = time_loop(
        step,
        [_time_major(x), *rows],
        states,
        mask=None if mask is None else ops.expand_dims(_time_major(mask), -1),
        collected_like=collected_like,
        **loop_options,
    )
    for i, slot in enumerate(learning):
        learned[slot] = BatchStatistics(*result.collected[3 * i : 3 * i + 3])
    return result, learned


def _time_major(x: Any) -> Any:
    return ops.swapaxes(x, 0, 1)
