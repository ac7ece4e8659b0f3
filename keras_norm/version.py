"""The version of keras_norm, which the build reads without importing TensorFlow."""

__version__ = "0.1.0"
