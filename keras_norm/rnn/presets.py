"""The norms of the papers."""

from typing import Any

import keras

from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.rnn.cell import NormCell


class LayerNormPreset(NormCell):
    """Fills every slot with `LayerNormalization(epsilon=1e-5)`; for a cell."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        _refuse_norm(self, kwargs)
        super().__init__(units, norm=LayerNormalization(epsilon=1e-5), **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        config = super().get_config()
        del config["norm"]
        return config


class BatchNormPreset(NormCell):
    """Fills every slot with a `TimestepBatchNormalization` as Cooijmans et al. use it.

    gamma starts at 0.1, since a unit deviation saturates tanh (section 4); only the state norm has
    a beta, as the bias serves the others (section 3).

    Args:
        units: size of the state.
        max_timesteps: number of timesteps with statistics of their own.
        momentum: of `TimestepBatchNormalization`.
        epsilon: of `TimestepBatchNormalization`.
        debias: of `TimestepBatchNormalization`.
        **kwargs: of the cell that this class stands before.
    """

    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-5,
        debias: bool = True,
        **kwargs: Any,
    ) -> None:
        _refuse_norm(self, kwargs)

        def batch_norm(slot: str) -> TimestepBatchNormalization:
            return TimestepBatchNormalization(
                max_timesteps,
                momentum,
                epsilon,
                center=slot == "state_norm",
                debias=debias,
                gamma_initializer=keras.initializers.Constant(0.1),
            )

        super().__init__(units, norm={slot: batch_norm(slot) for slot in self.SLOTS}, **kwargs)
        self.max_timesteps = max_timesteps
        self.momentum = momentum
        self.epsilon = epsilon
        self.debias = debias

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        config = super().get_config()
        del config["norm"]
        return {
            **config,
            "max_timesteps": self.max_timesteps,
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "debias": self.debias,
        }


def _refuse_norm(cell: NormCell, kwargs: dict[str, Any]) -> None:
    if "norm" in kwargs:
        name = type(cell).__name__
        general = name.replace("LayerNorm", "Norm").replace("BatchNorm", "Norm")
        raise TypeError(f"{name} brings its own norm; {general}(units, norm=...) takes another.")
