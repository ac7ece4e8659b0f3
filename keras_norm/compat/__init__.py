"""Load weights of other packages."""

from keras_norm.compat.addons import load_addons_weights

__all__ = ["load_addons_weights"]
