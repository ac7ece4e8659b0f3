"""`keras.layers.TimeDistributed` for sequences of dynamic length."""

import inspect
from typing import Any

import keras
from keras import ops


def apply_to_rows(
    wrapper: keras.layers.TimeDistributed, inputs: Any, training: Any = None, mask: Any = None
) -> Any:
    """Apply the inner layer of a TimeDistributed to all timesteps at once, as rows of one batch.

    ::

        y[b, t] = layer(x)[b * time + t]        x = inputs as (batch * time, ...)

    Where time is dynamic, Keras (3.15) runs as many timesteps as the batch has samples. Eager calls
    and a static time are right.

    Args:
        wrapper: the layer, whose inner layer computes each row by itself.
        inputs: (batch, time, ...).
        training: passed to the inner layer, if it takes it.
        mask: (batch, time), passed on as (batch * time,); or None.
    """
    layer = wrapper.layer
    takes = inspect.signature(layer.call).parameters
    options = {} if mask is None or "mask" not in takes else {"mask": _rows(mask)}
    if "training" in takes:
        options["training"] = training
    rows = layer.call(_rows(inputs), **options)
    batch, time = ops.shape(inputs)[:2]

    def unfolded(y: Any) -> Any:
        return ops.reshape(y, (batch, time, *ops.shape(y)[1:]))

    return keras.tree.map_structure(unfolded, rows)


def _rows(x: Any) -> Any:
    return ops.reshape(x, (-1, *ops.shape(x)[2:]))
