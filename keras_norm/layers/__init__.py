"""Normalization layers, with one public layer in each file."""

from keras_norm.layers.batch_norm import BatchNormalization
from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.rms_norm import RMSNormalization
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.layers.variance_norm import VarianceNormalization

__all__ = [
    "BatchNormalization",
    "LayerNormalization",
    "RMSNormalization",
    "TimestepBatchNormalization",
    "VarianceNormalization",
]
