"""Recurrent cells and layers with normalization inside the recurrence."""

from keras_norm.rnn.batch_norm_layers import (
    BatchNormGRU,
    BatchNormGRUCell,
    BatchNormLSTM,
    BatchNormLSTMCell,
    BatchNormSimpleRNN,
    BatchNormSimpleRNNCell,
)
from keras_norm.rnn.gru import NormGRU, NormGRUCell
from keras_norm.rnn.layer_norm_layers import (
    LayerNormGRU,
    LayerNormGRUCell,
    LayerNormLSTM,
    LayerNormLSTMCell,
    LayerNormSimpleRNN,
    LayerNormSimpleRNNCell,
)
from keras_norm.rnn.lstm import NormLSTM, NormLSTMCell
from keras_norm.rnn.simple_rnn import NormSimpleRNN, NormSimpleRNNCell

__all__ = [
    "BatchNormGRU",
    "BatchNormGRUCell",
    "BatchNormLSTM",
    "BatchNormLSTMCell",
    "BatchNormSimpleRNN",
    "BatchNormSimpleRNNCell",
    "LayerNormGRU",
    "LayerNormGRUCell",
    "LayerNormLSTM",
    "LayerNormLSTMCell",
    "LayerNormSimpleRNN",
    "LayerNormSimpleRNNCell",
    "NormGRU",
    "NormGRUCell",
    "NormLSTM",
    "NormLSTMCell",
    "NormSimpleRNN",
    "NormSimpleRNNCell",
]
