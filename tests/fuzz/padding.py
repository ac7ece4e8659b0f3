"""Which random models read padding, so that padding on the right rightly changes their answer."""

from typing import Any

import keras

from keras_norm import TimestepBatchNormalization
from keras_norm.named_layers import named_layers

# Those that a random model can hold: they take no mask, or do not hand it on. (In attention a
# masked timestep looks at all others, masked ones too.)
READERS = {
    keras.layers.AveragePooling1D,
    keras.layers.Conv1D,
    keras.layers.DepthwiseConv1D,
    keras.layers.EinsumDense,
    keras.layers.GlobalMaxPooling1D,
    keras.layers.MultiHeadAttention,
    keras.layers.RMSNormalization,
    keras.layers.UpSampling1D,
    keras.layers.ZeroPadding1D,
}


def reads_padding(model: keras.Model) -> bool:
    """Whether a layer of a random model reads masked timesteps, or counts them."""
    return any(_reads_padding(layer) for layer in model.layers)


def _reads_padding(layer: Any) -> bool:
    if isinstance(layer, keras.layers.Bidirectional):
        return _counts_from_the_end(layer.backward_layer) or _ends_in_zeros(layer.forward_layer)
    if isinstance(layer, keras.layers.RNN):
        # Keras turns the sequence round and not its mask.
        reversed_sequence = layer.go_backwards and layer.return_sequences
        return reversed_sequence or _counts_from_the_end(layer) or _ends_in_zeros(layer)
    return type(layer) in READERS


def _counts_from_the_end(layer: keras.layers.RNN) -> bool:
    """Whether statistics of every timestep are counted from the last one on, padding or not."""
    inner = (found for _, found in named_layers(layer))
    return layer.go_backwards and any(isinstance(x, TimestepBatchNormalization) for x in inner)


def _ends_in_zeros(layer: keras.layers.RNN) -> bool:
    """Whether the one output is that of the last timestep, and 0 where this is masked."""
    last = not (layer.return_sequences or layer.go_backwards)
    return layer.zero_output_for_mask and last
