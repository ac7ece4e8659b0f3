"""Normalization for sequence models in Keras 3."""

from keras_norm import compat
from keras_norm import layers as _layers
from keras_norm import rnn as _rnn
from keras_norm.layers import *  # noqa: F403
from keras_norm.recalibrate import recalibrate
from keras_norm.rnn import *  # noqa: F403
from keras_norm.version import __version__

__all__ = ["__version__", "compat", "recalibrate", *_layers.__all__, *_rnn.__all__]
