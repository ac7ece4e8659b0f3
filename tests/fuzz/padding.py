"""Find the random models that read padding: padding on the right may change their outputs."""

from typing import Any

import keras

# Layers of random models that ignore a mask, or do not pass it on. (In attention a masked timestep
# attends to all timesteps, also to masked timesteps.)
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
    """Return whether a layer of a random model reads masked timesteps."""
    return any(_reads_padding(layer) for layer in model.layers)


def _reads_padding(layer: Any) -> bool:
    if isinstance(layer, keras.layers.Bidirectional):
        return _ends_in_zeros(layer.forward_layer)
    if isinstance(layer, keras.layers.RNN):
        # Keras reverses the sequence, but not its mask.
        reversed_sequence = layer.go_backwards and layer.return_sequences
        return reversed_sequence or _ends_in_zeros(layer)
    return type(layer) in READERS


def _ends_in_zeros(layer: keras.layers.RNN) -> bool:
    """Return whether a layer returns its last output only, and 0 if that timestep is masked."""
    last = not (layer.return_sequences or layer.go_backwards)
    return layer.zero_output_for_mask and last
