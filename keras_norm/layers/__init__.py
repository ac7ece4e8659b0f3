"""Normalization layers, with one public layer in each file; a new layer needs one import here."""

import typing

from keras_norm.layers.batch_norm import BatchNormalization as BatchNormalization
from keras_norm.layers.layer_norm import LayerNormalization as LayerNormalization
from keras_norm.layers.rms_norm import RMSNormalization as RMSNormalization
from keras_norm.layers.timestep_batch_norm import (
    TimestepBatchNormalization as TimestepBatchNormalization,
)
from keras_norm.layers.variance_norm import VarianceNormalization as VarianceNormalization

LAYERS: list[typing.Any] = [value for value in list(vars().values()) if isinstance(value, type)]
__all__ = [layer.__name__ for layer in LAYERS]
