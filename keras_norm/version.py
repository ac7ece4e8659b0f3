"""The version, alone in a file so that the build reads it without importing TensorFlow."""

__version__ = "0.1.0"
