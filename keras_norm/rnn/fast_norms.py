"""How the norms in a cell's slots enter the fast sequence form.

Needs the TensorFlow backend.
"""

from typing import Any

import tensorflow as tf

from keras_norm.layers.batch_statistics import BatchStatistics
from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.rms_norm import RMSNormalization
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.ops.fast.columns import BatchNorm, Statistics
from keras_norm.ops.fast.norms import RowNorm
from keras_norm.ops.fast.spec import STATE, Norm, Place, Spec
from keras_norm.rnn.cell import FastCell


def fast_norm(layer: Any, training: bool) -> Norm | bool:
    """The norm that a slot's layer computes, None for no layer, False for one not covered."""
    if layer is None:
        return None
    if type(layer) is LayerNormalization:
        plain = layer.epsilon_placement == "inside" and layer.ddof == 0
        return plain and RowNorm(True, layer.epsilon)
    if type(layer) is TimestepBatchNormalization:
        return BatchNorm(layer.epsilon, learning=bool(training and layer.trainable))
    return type(layer) is RMSNormalization and RowNorm(False, layer.epsilon)


def places_of_batch_norms(fast: FastCell, spec: Spec) -> dict[str, list[Place]]:
    """The places, of one gate each, that the batch norm in each slot has."""
    sides = {"kernel": fast.kernel_slots, "recurrent": fast.recurrent_slots}
    places = {
        slot: [Place(side, gate) for gate, _ in gates]
        for side, slots in sides.items()
        for slot, gates in zip(slots, spec.gates, strict=True)
    }
    places[fast.state_slot] = [STATE]
    return {slot: there for slot, there in places.items() if there[0] in spec.batch_norms}


def moving_statistics(layer: Any, places: list[Place], time: Any, dtype: str) -> list[Statistics]:
    """The moving statistics (time, units) that stand for each timestep, for each place.

    Args:
        layer: a `TimestepBatchNormalization`.
        places: of `places_of_batch_norms`.
        time: number of timesteps.
        dtype: of the result.
    """
    mean, variance = layer.statistics.at(tf.range(time), dtype)
    r = tf.math.rsqrt(variance + layer.epsilon)
    gates = [tf.split(s, len(places), axis=1) for s in (mean, r)]
    return list(map(Statistics, *gates))


def batch_statistics(
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
