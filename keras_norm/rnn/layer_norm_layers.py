"""LSTM, GRU and SimpleRNN with LayerNorm."""

from typing import Any, ClassVar

import keras

from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.gru import NormGRU, NormGRUCell
from keras_norm.rnn.lstm import NormLSTM, NormLSTMCell
from keras_norm.rnn.simple_rnn import NormSimpleRNN, NormSimpleRNNCell


class LayerNormPreset(NormCell):
    """Mixin that sets the `norm` of a cell to `LayerNormalization`, as in `LayerNormLSTM`."""

    HIDDEN: ClassVar = ("norm",)

    def __init__(self, units: int, *args: Any, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(units, LayerNormalization(epsilon=epsilon), *args, **kwargs)
        self.epsilon = epsilon


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormLSTMCell(LayerNormPreset, NormLSTMCell):
    """Compute one step of an LSTM with LayerNorm inside.

    ::

        i, f, g, o = LN(W x_t) + LN(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(LN(c))

    s is the sigmoid, and every LN has its own gamma and beta. The next step receives c, not LN(c).

    Args:
        units: size of h and c.
        *args: arguments of `keras.layers.LSTMCell` after `units`, in their order.
        epsilon: number that the norms add to the variance.
        **kwargs: arguments of `NormLSTMCell`, without `norm`.

    Call arguments:
        inputs: (batch, features).
        states: h and c, each (batch, units).
        training: whether to apply dropout.

    Raises:
        TypeError: an argument is unknown, missing or repeated.

    Example:
        >>> keras.layers.RNN(LayerNormLSTMCell(8))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20-22.
    """


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormLSTM(NormLSTM):
    """Run an LSTM with LayerNorm inside over sequences.

    ::

        i, f, g, o = LN(W x_t) + LN(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(LN(c))

    s is the sigmoid, and every LN has its own gamma and beta. The norms of W x_t and U h are over
    all 4 * units together. The next step receives c, not LN(c).

    Args:
        units: size of the state and of the output.
        epsilon: number that the norms add to the variance.
        *args: arguments of `keras.layers.LSTM` after `units`, in their order.
        **kwargs: arguments of `NormLSTM`, without `norm`.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h and c, each (batch, units); zeros by default.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.

    Example:
        >>> LayerNormLSTM(8, return_sequences=True)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 5, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20-22.
    """

    cell_class = LayerNormLSTMCell


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormGRUCell(LayerNormPreset, NormGRUCell):
    """Compute one step of a GRU with LayerNorm inside.

    ::

        z, r = s(LN((W x_t)_zr) + LN((U h)_zr) + b_zr)
        n = tanh(LN((W x_t)_h) + r * LN((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    s is the sigmoid, and every LN has its own gamma and beta. The reset gate acts after the norm.

    Args:
        units: size of h.
        *args: arguments of `keras.layers.GRUCell` after `units`, in their order.
        epsilon: number that the norms add to the variance.
        **kwargs: arguments of `NormGRUCell`, without `norm`.

    Call arguments:
        inputs: (batch, features).
        states: h, (batch, units).
        training: whether to apply dropout.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: `reset_after=False`.

    Example:
        >>> keras.layers.RNN(LayerNormGRUCell(8))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, supplement.
    """


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormGRU(NormGRU):
    """Run a GRU with LayerNorm inside over sequences.

    ::

        z, r = s(LN((W x_t)_zr) + LN((U h)_zr) + b_zr)
        n = tanh(LN((W x_t)_h) + r * LN((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    s is the sigmoid, and every LN has its own gamma and beta. The norms of the gates z and r are
    over 2 * units together. The reset gate acts after the norm.

    Args:
        units: size of the state and of the output.
        epsilon: number that the norms add to the variance.
        *args: arguments of `keras.layers.GRU` after `units`, in their order.
        **kwargs: arguments of `NormGRU`, without `norm`.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h, (batch, units); zeros by default.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: `reset_after=False`.

    Example:
        >>> LayerNormGRU(8)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, supplement.
    """

    cell_class = LayerNormGRUCell


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormSimpleRNNCell(LayerNormPreset, NormSimpleRNNCell):
    """Compute one step of a SimpleRNN with LayerNorm inside.

    ::

        h = tanh(LN(W x_t) + LN(U h) + b)

    Every LN has its own gamma and beta, over the units.

    Args:
        units: size of h.
        *args: arguments of `keras.layers.SimpleRNNCell` after `units`, in their order.
        epsilon: number that the norms add to the variance.
        **kwargs: arguments of `NormSimpleRNNCell`, without `norm`.

    Call arguments:
        inputs: (batch, features).
        states: h, (batch, units).
        training: whether to apply dropout.

    Raises:
        TypeError: an argument is unknown, missing or repeated.

    Example:
        >>> keras.layers.RNN(LayerNormSimpleRNNCell(8))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20,
        without the gates.
    """


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormSimpleRNN(NormSimpleRNN):
    """Run a SimpleRNN with LayerNorm inside over sequences.

    ::

        h = tanh(LN(W x_t) + LN(U h) + b)

    Every LN has its own gamma and beta, over the units.

    Args:
        units: size of the state and of the output.
        epsilon: number that the norms add to the variance.
        *args: arguments of `keras.layers.SimpleRNN` after `units`, in their order.
        **kwargs: arguments of `NormSimpleRNN`, without `norm`.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h, (batch, units); zeros by default.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.

    Example:
        >>> LayerNormSimpleRNN(8)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20,
        without the gates.
    """

    cell_class = LayerNormSimpleRNNCell
