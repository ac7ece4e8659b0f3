"""Apply `keras.layers.TimeDistributed` to sequences of dynamic length."""

import inspect

import keras
from keras import ops

from keras_norm.typing import Nest, Tensor


def apply_to_rows(
    wrapper: keras.layers.TimeDistributed,
    inputs: Tensor,
    training: bool | None = None,
    mask: Tensor | None = None,
) -> Nest:
    """Apply the inner layer of a TimeDistributed once, to a batch of all timesteps.

    ::

        y[b, t] = layer(x)[b * time + t]        x = inputs as (batch * time, ...)

    With a dynamic time, `TimeDistributed` of Keras 3.15 is wrong: it runs as many timesteps as the
    batch has samples. Eager calls, and calls with a static time, are right.

    Args:
        wrapper: TimeDistributed layer. Its inner layer must compute each row independently.
        inputs: (batch, time, ...).
        training: passed to the inner layer if its call has this argument.
        mask: (batch, time), reshaped to (batch * time,) for the inner layer; or None.
    """
    layer = wrapper.layer
    parameters = inspect.signature(layer.call).parameters
    options: dict[str, Tensor | bool | None] = {}
    if mask is not None and "mask" in parameters:
        options["mask"] = _merge_time(mask)
    if "training" in parameters:
        options["training"] = training
    rows = layer.call(_merge_time(inputs), **options)
    batch, time = ops.shape(inputs)[:2]

    def split_time(y: Tensor) -> Tensor:
        return ops.reshape(y, (batch, time, *ops.shape(y)[1:]))

    return keras.tree.map_structure(split_time, rows)


def _merge_time(x: Tensor) -> Tensor:
    return ops.reshape(x, (-1, *ops.shape(x)[2:]))
