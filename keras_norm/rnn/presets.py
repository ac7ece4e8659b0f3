"""Mixins that set the `norm` of a cell: to layer normalization, or to batch normalization."""

from typing import Any, ClassVar

import keras

from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.rnn.cell import NormCell


class LayerNormPreset(NormCell):
    """Mixin that sets the `norm` of a cell to `LayerNormalization`, as in `LayerNormLSTM`."""

    HIDDEN: ClassVar = ("norm",)

    def __init__(self, units: int, *args: Any, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(units, LayerNormalization(epsilon=epsilon), *args, **kwargs)
        self.epsilon = epsilon


class BatchNormPreset(NormCell):
    """Mixin that sets the `norm` of a cell to `TimestepBatchNormalization`, as in `BatchNormLSTM`.

    As in the paper, gamma is initialized to 0.1, because a deviation of 1 saturates tanh
    (section 4). Only the state norm has a beta, because the bias shifts the other norms
    (section 3).
    """

    HIDDEN: ClassVar = ("norm",)

    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-5,
        debias: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        def batch_norm(slot: str) -> TimestepBatchNormalization:
            return TimestepBatchNormalization(
                max_timesteps,
                momentum,
                epsilon,
                center=slot == "state_norm",
                debias=debias,
                gamma_initializer=keras.initializers.Constant(0.1),
            )

        slots = self.JOINT_SLOTS if kwargs.get("norm_form") == "joint" else self.SLOTS
        super().__init__(units, {slot: batch_norm(slot) for slot in slots}, *args, **kwargs)
        self.max_timesteps = max_timesteps
        self.momentum = momentum
        self.epsilon = epsilon
        self.debias = debias
