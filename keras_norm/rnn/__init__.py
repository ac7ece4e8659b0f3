"""Recurrent cells and layers with normalization inside. To add a layer, import it here.

This module creates the presets of each imported layer and of its cell, such as `LayerNormLSTM`.
"""

import typing

import keras

from keras_norm.rnn.gru import NormGRU as NormGRU
from keras_norm.rnn.lstm import NormLSTM as NormLSTM
from keras_norm.rnn.presets import create_presets
from keras_norm.rnn.simple_rnn import NormSimpleRNN as NormSimpleRNN

LAYERS: list[typing.Any] = [value for value in list(vars().values()) if isinstance(value, type)]
# A dict such as {keras.layers.LSTMCell: NormLSTM}: for each Keras cell class, the layer of
# keras_norm that replaces a Keras layer with this cell.
KERAS_CELLS = {
    getattr(keras.layers, f"{layer.keras_class.__name__}Cell"): layer
    for layer in LAYERS
    if layer.keras_class is not None
}
CLASSES = {
    cls.__name__: cls
    for layer in LAYERS
    for cls in (layer, layer.cell_class, *create_presets(layer, __name__))
}
vars().update(CLASSES)
__all__ = sorted(CLASSES)
