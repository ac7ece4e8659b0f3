"""A `Bidirectional` layer with the call argument `resets` of the layers of keras_norm."""

import keras

from keras_norm.rnn.call_arguments import join_resets
from keras_norm.rnn.norm_rnn import NormRNN
from keras_norm.typing import Nest, Tensor


@keras.saving.register_keras_serializable(package="keras_norm")
class Bidirectional(keras.layers.Bidirectional):
    """Run a recurrent layer in both directions; both layers get the call argument `resets`.

    Without `resets` it equals `keras.layers.Bidirectional`, which does not have this argument and
    also takes the layers of this package.

    Args:
        *args: arguments of `keras.layers.Bidirectional`: the layer, `merge_mode`, `weights`,
            `backward_layer`.
        **kwargs: the same arguments by name, and `name`, `dtype`, `trainable`.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: the states of the forward layer, then those of the backward layer.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.
        resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, as for
            the layer. The backward layer starts each sequence at its last timestep.

    Raises:
        ValueError: a call has `resets`, and a layer is not of keras_norm.

    Example:
        >>> layer = Bidirectional(LayerNormLSTM(8, return_sequences=True))
        >>> resets = np.array([[True, False, False, True, False]])
        >>> layer(np.zeros((2, 5, 4)), resets=resets).shape
        TensorShape([2, 5, 16])

    Reference:
        Schuster and Paliwal, "Bidirectional Recurrent Neural Networks" (1997).
    """

    def call(
        self,
        sequences: Tensor,
        initial_state: Nest = None,
        mask: Nest = None,
        training: bool | None = None,
        resets: Tensor | None = None,
    ) -> Nest:
        """Run the layer in both directions; the docstring of the class has the arguments."""
        if resets is not None:
            for layer in (self.forward_layer, self.backward_layer):
                if not isinstance(layer, NormRNN):
                    raise ValueError(
                        "Only layers of keras_norm, such as keras_norm.NormLSTM, have the "
                        f"call argument resets. Received: {type(layer).__name__} in "
                        f"{type(self).__name__} '{self.name}'. To replace the layers of a model, "
                        "call keras_norm.convert(model, None)."
                    )
            mask = join_resets(sequences, mask, resets)
        return super().call(sequences, initial_state, mask, training)
