"""Recurrent cells and layers with normalization inside the recurrence."""

from keras_norm.rnn.gru import (
    BatchNormGRU,
    BatchNormGRUCell,
    LayerNormGRU,
    LayerNormGRUCell,
    NormGRU,
    NormGRUCell,
)
from keras_norm.rnn.lstm import (
    BatchNormLSTM,
    BatchNormLSTMCell,
    LayerNormLSTM,
    LayerNormLSTMCell,
    NormLSTM,
    NormLSTMCell,
)
from keras_norm.rnn.simple_rnn import (
    BatchNormSimpleRNN,
    BatchNormSimpleRNNCell,
    LayerNormSimpleRNN,
    LayerNormSimpleRNNCell,
    NormSimpleRNN,
    NormSimpleRNNCell,
)

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
