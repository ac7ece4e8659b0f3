"""Normalization for sequence models in Keras 3."""

from keras_norm import layers as _layers
from keras_norm import rnn as _rnn
from keras_norm.layers import *  # noqa: F403
from keras_norm.rnn import *  # noqa: F403
from keras_norm.version import __version__

__all__ = ["__version__", *_layers.__all__, *_rnn.__all__]
