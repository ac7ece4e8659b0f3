"""LSTM, GRU and SimpleRNN with recurrent BatchNorm."""

from typing import Any, ClassVar

import keras

from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.gru import NormGRU, NormGRUCell
from keras_norm.rnn.lstm import NormLSTM, NormLSTMCell
from keras_norm.rnn.simple_rnn import NormSimpleRNN, NormSimpleRNNCell


class BatchNormPreset(NormCell):
    """Mixin that sets the `norm` of a cell to `TimestepBatchNormalization`, as in `BatchNormLSTM`.

    As in the paper, gamma is initialized to 0.1, because a deviation of 1 saturates tanh
    (section 4). Only the state norm has a beta, because the bias shifts the other norms
    (section 3).
    """

    HIDDEN: ClassVar = ("norm",)

    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-5,
        debias: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        def batch_norm(slot: str) -> TimestepBatchNormalization:
            return TimestepBatchNormalization(
                max_timesteps,
                momentum,
                epsilon,
                center=slot == "state_norm",
                debias=debias,
                gamma_initializer=keras.initializers.Constant(0.1),
            )

        slots = self.JOINT_SLOTS if kwargs.get("norm_form") == "joint" else self.SLOTS
        super().__init__(units, {slot: batch_norm(slot) for slot in slots}, *args, **kwargs)
        self.max_timesteps = max_timesteps
        self.momentum = momentum
        self.epsilon = epsilon
        self.debias = debias


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormLSTMCell(BatchNormPreset, NormLSTMCell):
    """Compute one step of an LSTM with recurrent BatchNorm inside.

    ::

        i, f, g, o = BN_t(W x_t) + BN_t(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(BN_t(c))

    BN_t and its arguments are those of `BatchNormLSTM`. Prefer that layer: keras.layers.RNN calls
    a cell twice at the first timestep, and so updates these statistics twice. `NormLSTMCell`
    documents the call arguments.

    Args:
        units: size of h and c.
        *args: `max_timesteps` to `debias`, then the arguments of `keras.layers.LSTMCell`.
        **kwargs: arguments of `NormLSTMCell`, without `norm`.

    Raises:
        TypeError: an argument is unknown, missing or repeated.

    Example:
        >>> keras.layers.RNN(BatchNormLSTMCell(8, max_timesteps=5))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6-8.
    """


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormLSTM(NormLSTM):
    """Run an LSTM with recurrent BatchNorm inside over sequences.

    ::

        i, f, g, o = BN_t(W x_t) + BN_t(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(BN_t(c))

    BN_t uses the batch statistics of timestep t in training, and the moving statistics of timestep
    t at inference. Every BN_t has its own statistics and gamma, and all timesteps share gamma,
    which is initialized to 0.1. s is the sigmoid. The next step receives c, not BN_t(c). Only the
    norm of c has a beta.

    Every call counts timesteps from 0. If you cut a sequence into pieces with `stateful=True` or
    `initial_state`, every piece uses the statistics of the first timesteps.
    The moving statistics lag behind the weights: call `keras_norm.recalibrate` before you export.

    Args:
        units: size of the state and of the output.
        max_timesteps: number of timesteps with their own statistics. Later timesteps share the
            statistics of the last one.
        momentum: weight of earlier batches in the moving statistics; None averages all batches.
        epsilon: number that the norms add to the variance.
        debias: whether to correct the moving statistics for their initial values 0 and 1.
        *args: arguments of `keras.layers.LSTM` after `units`, in their order.
        **kwargs: arguments of `NormLSTM`, without `norm`.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h and c, each (batch, units); zeros by default.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.

    Example:
        >>> BatchNormLSTM(8, max_timesteps=5)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6-8.
    """

    cell_class = BatchNormLSTMCell


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormGRUCell(BatchNormPreset, NormGRUCell):
    """Compute one step of a GRU with recurrent BatchNorm inside.

    ::

        z, r = s(BN_t((W x_t)_zr) + BN_t((U h)_zr) + b_zr)
        n = tanh(BN_t((W x_t)_h) + r * BN_t((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    BN_t and its arguments are those of `BatchNormGRU`. Prefer that layer: keras.layers.RNN calls
    a cell twice at the first timestep, and so updates these statistics twice. `NormLSTMCell`
    documents the call arguments. There is one state, h.

    Args:
        units: size of h.
        *args: `max_timesteps` to `debias`, then the arguments of `keras.layers.GRUCell`.
        **kwargs: arguments of `NormGRUCell`, without `norm`.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: `reset_after=False`.

    Example:
        >>> keras.layers.RNN(BatchNormGRUCell(8, max_timesteps=5))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6.
    """


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormGRU(NormGRU):
    """Run a GRU with recurrent BatchNorm inside over sequences.

    ::

        z, r = s(BN_t((W x_t)_zr) + BN_t((U h)_zr) + b_zr)
        n = tanh(BN_t((W x_t)_h) + r * BN_t((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    BN_t uses the batch statistics of timestep t in training, and the moving statistics of timestep
    t at inference. Every BN_t has its own statistics and gamma, and all timesteps share gamma,
    which is initialized to 0.1. s is the sigmoid. The reset gate acts after the norm. The norms
    have no beta.

    Every call counts timesteps from 0. If you cut a sequence into pieces with `stateful=True` or
    `initial_state`, every piece uses the statistics of the first timesteps.
    The moving statistics lag behind the weights: call `keras_norm.recalibrate` before you export.

    Args:
        units: size of the state and of the output.
        max_timesteps: number of timesteps with their own statistics. Later timesteps share the
            statistics of the last one.
        momentum: weight of earlier batches in the moving statistics; None averages all batches.
        epsilon: number that the norms add to the variance.
        debias: whether to correct the moving statistics for their initial values 0 and 1.
        *args: arguments of `keras.layers.GRU` after `units`, in their order.
        **kwargs: arguments of `NormGRU`, without `norm`.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h, (batch, units); zeros by default.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: `reset_after=False`.

    Example:
        >>> BatchNormGRU(8, max_timesteps=5)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6, in
        a GRU.
    """

    cell_class = BatchNormGRUCell


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormSimpleRNNCell(BatchNormPreset, NormSimpleRNNCell):
    """Compute one step of a SimpleRNN with recurrent BatchNorm inside.

    ::

        h = tanh(BN_t(W x_t) + BN_t(U h) + b)

    BN_t and its arguments are those of `BatchNormSimpleRNN`. Prefer that layer: keras.layers.RNN
    calls a cell twice at the first timestep, and so updates these statistics twice.
    `NormLSTMCell` documents the call arguments. There is one state, h.

    Args:
        units: size of h.
        *args: `max_timesteps` to `debias`, then the arguments of `keras.layers.SimpleRNNCell`.
        **kwargs: arguments of `NormSimpleRNNCell`, without `norm`.

    Raises:
        TypeError: an argument is unknown, missing or repeated.

    Example:
        >>> keras.layers.RNN(BatchNormSimpleRNNCell(8, max_timesteps=5))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6.
    """


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormSimpleRNN(NormSimpleRNN):
    """Run a SimpleRNN with recurrent BatchNorm inside over sequences.

    ::

        h = tanh(BN_t(W x_t) + BN_t(U h) + b)

    BN_t uses the batch statistics of timestep t in training, and the moving statistics of timestep
    t at inference. Every BN_t has its own statistics and gamma, and all timesteps share gamma,
    which is initialized to 0.1. The norms have no beta.

    Every call counts timesteps from 0. If you cut a sequence into pieces with `stateful=True` or
    `initial_state`, every piece uses the statistics of the first timesteps.
    The moving statistics lag behind the weights: call `keras_norm.recalibrate` before you export.

    Args:
        units: size of the state and of the output.
        max_timesteps: number of timesteps with their own statistics. Later timesteps share the
            statistics of the last one.
        momentum: weight of earlier batches in the moving statistics; None averages all batches.
        epsilon: number that the norms add to the variance.
        debias: whether to correct the moving statistics for their initial values 0 and 1.
        *args: arguments of `keras.layers.SimpleRNN` after `units`, in their order.
        **kwargs: arguments of `NormSimpleRNN`, without `norm`.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h, (batch, units); zeros by default.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.

    Example:
        >>> BatchNormSimpleRNN(8, max_timesteps=5)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6,
        without the gates.
    """

    cell_class = BatchNormSimpleRNNCell
