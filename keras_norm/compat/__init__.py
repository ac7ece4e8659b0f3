"""Load weights that were trained with another library, such as PyTorch or Flax."""

from keras_norm.compat.addons_weights import load_addons_weights
from keras_norm.compat.biased_layer_norm import BiasedLayerNormalization
from keras_norm.compat.dreamer_weights import load_dreamer_weights
from keras_norm.compat.flax_weights import load_flax_weights
from keras_norm.compat.haste_weights import load_haste_weights
from keras_norm.compat.kiros_weights import load_kiros_weights
from keras_norm.compat.torch_weights import load_torch_weights
from keras_norm.compat.weight_files import read_weights

__all__ = [
    "BiasedLayerNormalization",
    "load_addons_weights",
    "load_dreamer_weights",
    "load_flax_weights",
    "load_haste_weights",
    "load_kiros_weights",
    "load_torch_weights",
    "read_weights",
]
