"""Load weights that another library trained: PyTorch, TensorFlow Addons."""

from keras_norm.compat.addons_weights import load_addons_weights
from keras_norm.compat.weight_files import read_weights

__all__ = ["load_addons_weights", "read_weights"]
