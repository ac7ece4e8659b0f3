"""Recurrent cells and layers with normalization inside the recurrence."""

from keras_norm.rnn.gru import NormGRU
from keras_norm.rnn.lstm import NormLSTM
from keras_norm.rnn.presets import create_presets
from keras_norm.rnn.simple_rnn import NormSimpleRNN

# The recurrent layers, each with its cell. A new layer needs one line here: its presets, such as
# LayerNormLSTM, are created from it, and `keras_norm.convert` knows it.
LAYERS = (
    NormGRU,
    NormLSTM,
    NormSimpleRNN,
)

CLASSES = {
    cls.__name__: cls
    for layer in LAYERS
    for cls in (layer, layer.cell_class, *create_presets(layer, __name__))
}
globals().update(CLASSES)
__all__ = sorted(CLASSES)
