# Written by `python -m tests.stubs` (make stubs) from the signatures that Python shows.

from collections.abc import Callable, Mapping, Sequence

import keras

from keras_norm import compat as compat
from keras_norm import export as export
from keras_norm.conversion.convert import convert as convert
from keras_norm.conversion.convert import to_keras as to_keras
from keras_norm.packed_sequences import PackedSequences as PackedSequences
from keras_norm.packed_sequences import pack_sequences as pack_sequences
from keras_norm.recalibration.assign_statistics import assign_statistics as assign_statistics
from keras_norm.recalibration.collect_statistics import collect_statistics as collect_statistics
from keras_norm.recalibration.merge_statistics import merge_statistics as merge_statistics
from keras_norm.recalibration.recalibrate import recalibrate as recalibrate
from keras_norm.recalibration.statistics import Statistics as Statistics
from keras_norm.rnn.bidirectional import Bidirectional as Bidirectional
from keras_norm.statistics_plot import plot_statistics as plot_statistics
from keras_norm.typing import Serializable, Tensor
from keras_norm.version import __version__ as __version__

class RMSNormalization(keras.layers.Layer):
    """Divide each sample by the root mean square of its features.

    ::

        y = scale * x / sqrt(mean(x^2) + epsilon)

    The layer takes the arguments, the defaults and the weight of `keras.layers.RMSNormalization`.
    Unlike Keras' layer, it passes its mask on, and does not overflow in float16.

    Args:
        axis: axis or axes to normalize over; `scale` has their shape.
        epsilon: number added to the mean square.
        supports_masking: whether the layer passes its mask on. Keras' layer does not: later layers
            then treat masked timesteps as all others.
        **kwargs: `name`, `dtype`, `trainable` of every Keras layer.

    Call arguments:
        inputs: floating tensor of any rank.

    Raises:
        TypeError: the inputs are integers, an axis is not an integer, or an argument is unknown.
        ValueError: an axis is out of range or occurs twice; epsilon is negative.

    Example:
        >>> RMSNormalization()(np.array([[3.0, 4.0]])).numpy().round(4)
        array([[0.8485, 1.1314]], dtype=float32)

    Reference:
        Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019), arXiv 1910.07467, eq. 4.
    """

    axis: int | Sequence[int]
    epsilon: float
    gamma: keras.Variable
    scale: keras.Variable
    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 1e-06,
        *,
        supports_masking: bool = True,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormGRU(keras.layers.RNN):
    """Run a GRU with normalization inside over sequences.

    ::

        z, r = s(kernel_norm((W x_t)_zr) + recurrent_norm((U h)_zr) + b_zr)
        n = tanh(kernel_candidate_norm((W x_t)_h) + r * recurrent_candidate_norm((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    s is the sigmoid. The norms of the gates z and r are over 2 * units together. The reset gate
    acts after the norm, and there is one bias.

    With `norm=None` the layer equals `keras.layers.GRU`: it has two biases, or
    `reset_after=False`. In a joint form it has one bias, and another equation than Keras.

    Args:
        units: size of the state and of the output.
        norm: a normalization layer, a dict from slots to layers, or None, as for
            `NormGRUCell`.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms z, r, a are
            norm(W x_t + U h) + b, and n = tanh(s(r) * a). "joint" has a norm for each gate, over
            units: `update_norm`, `reset_norm` and `candidate_norm`. "joint_all" has one norm over
            all 3 * units together, `joint_norm`, as the GRU of DreamerV2 (Hafner et al. 2021). Pass
            "joint_all" if the size of x carries information, because the norm of W x_t removes it.
        unit_update_bias: whether the initial bias of z is 1, as `unit_forget_bias` of an LSTM. The
            state then changes slowly at the start of training. Dreamer's update gate is 1 - z, with
            a bias of -1.
        candidate_dropout: probability p of dropout of the candidate. In training n is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.GRU` after `units`, in their order.
        compiled: whether XLA compiles the recurrence on TensorFlow. "auto" compiles it in training
            if the cell is supported, True also at inference, False never. On JAX and PyTorch it
            selects the custom gradient, and "auto" uses it at inference too.
        use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.
        **kwargs: arguments of `keras.layers.GRU`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h, of shape (batch, units); by default zeros, or the weights of
            `learn_initial_state`.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.
        resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, if a
            row has several sequences. Before this timestep the states are set to `initial_state`,
            or else to zeros or the weights of `learn_initial_state`, also with `stateful=True`.
            Results equal those of each sequence alone. In training no norm may have batch
            statistics of a timestep.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: `norm` is not a layer, or an argument is unknown, missing or repeated.
        ValueError: a slot that the cell does not have, a norm over an axis other than the last, an
            unknown `norm_form`, a norm or a joint form together with `reset_after=False`, or
            `unit_update_bias=True` together with `use_bias=False`.

    Example:
        >>> NormGRU(8, LayerNormalization())(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, supplement. As
        in Keras, z and 1 - z are swapped.
    """

    activation: Callable[..., Tensor]
    bias_constraint: keras.constraints.Constraint | None
    bias_initializer: keras.initializers.Initializer
    bias_regularizer: keras.regularizers.Regularizer | None
    candidate_dropout: float
    compiled: bool | str
    dropout: float
    kernel_constraint: keras.constraints.Constraint | None
    kernel_initializer: keras.initializers.Initializer
    kernel_regularizer: keras.regularizers.Regularizer | None
    learn_initial_state: bool
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
    norm_form: str
    recurrent_activation: Callable[..., Tensor]
    recurrent_constraint: keras.constraints.Constraint | None
    recurrent_dropout: float
    recurrent_initializer: keras.initializers.Initializer
    recurrent_regularizer: keras.regularizers.Regularizer | None
    reset_after: bool
    seed: int | keras.random.SeedGenerator | None
    unit_update_bias: bool
    units: int
    use_bias: bool
    zoneout: float
    def __init__(
        self,
        units: int,
        norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None = None,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        activity_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: bool | str = "auto",
        *,
        unit_update_bias: bool = False,
        candidate_dropout: float = 0.0,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormLSTM(keras.layers.RNN):
    """Run an LSTM with normalization inside over sequences.

    ::

        i, f, g, o = kernel_norm(W x_t) + recurrent_norm(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(state_norm(c))

    s is the sigmoid. The norms of W x_t and of U h are over all 4 * units together. The next step
    receives c, not state_norm(c).

    With `norm=None` the layer equals `keras.layers.LSTM`, in every `norm_form`.

    Args:
        units: size of the state and of the output.
        norm: a normalization layer, a dict from slots to layers, or None, as for
            `NormLSTMCell`.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms i, f, g, o are
            norm(W x_t + U h) + b, and c has no norm. "joint" has a norm for each gate, over units:
            `input_norm`, `forget_norm`, `cell_norm` and `output_norm`. "joint_all" has one norm
            over all 4 * units together, `joint_norm`. Pass "joint" if the size of x, such as an
            amplitude, carries information, because the norm of W x_t removes it.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        cell_zoneout: the same probability for c.
        candidate_dropout: probability p of dropout of the candidate. In training tanh(g) is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        projection_units: None, or the size of h = projection_norm(P (s(o) * tanh(state_norm(c)))).
            P is a matrix, and `projection_norm` a further slot of the separate form (Sak et al.
            2014, arXiv 1402.1128). c has the size `units`.
        peepholes: whether the gates read c. i and f then have the further terms p_i * c and p_f * c
            with the c before the step, and o the term p_o * c with the new c (Gers et al. 2002,
            "Learning Precise Timing with LSTM Recurrent Networks"). p_i, p_f and p_o (units,) are
            zeros before training.
        cell_clip: None, or the bound of c: c becomes min(max(c, -`cell_clip`), `cell_clip`) before
            `state_norm` and o read it, as in TensorFlow's `BlockLSTM`.
        normalize_carry: whether the next step receives state_norm(c), as in the cell of TensorFlow
            Addons, in place of c, as in the paper.
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.LSTM` after `units`, in their order.
        compiled: whether XLA compiles the recurrence on TensorFlow. "auto" compiles it in training
            if the cell is supported, True also at inference, False never. On JAX and PyTorch it
            selects the custom gradient, and "auto" uses it at inference too.
        use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.
        **kwargs: arguments of `keras.layers.LSTM`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h and c, of shape (batch, units); by default zeros, or the weights of
            `learn_initial_state`.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.
        resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, if a
            row has several sequences. Before this timestep the states are set to `initial_state`,
            or else to zeros or the weights of `learn_initial_state`, also with `stateful=True`.
            Results equal those of each sequence alone. In training no norm may have batch
            statistics of a timestep.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: `norm` is not a layer, or an argument is unknown, missing or repeated.
        ValueError: a slot that the cell does not have, a norm over an axis other than the last, an
            unknown `norm_form`, `normalize_carry` with a joint form, or an option out of its range.

    Example:
        >>> NormLSTM(8, LayerNormalization())(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20-22.
    """

    activation: Callable[..., Tensor]
    bias_constraint: keras.constraints.Constraint | None
    bias_initializer: keras.initializers.Initializer
    bias_regularizer: keras.regularizers.Regularizer | None
    candidate_dropout: float
    cell_clip: float | None
    cell_zoneout: float
    compiled: bool | str
    dropout: float
    kernel_constraint: keras.constraints.Constraint | None
    kernel_initializer: keras.initializers.Initializer
    kernel_regularizer: keras.regularizers.Regularizer | None
    learn_initial_state: bool
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
    norm_form: str
    normalize_carry: bool
    peepholes: bool
    projection_units: int | None
    recurrent_activation: Callable[..., Tensor]
    recurrent_constraint: keras.constraints.Constraint | None
    recurrent_dropout: float
    recurrent_initializer: keras.initializers.Initializer
    recurrent_regularizer: keras.regularizers.Regularizer | None
    seed: int | keras.random.SeedGenerator | None
    unit_forget_bias: bool
    units: int
    use_bias: bool
    zoneout: float
    def __init__(
        self,
        units: int,
        norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None = None,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        activity_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = "auto",
        *,
        normalize_carry: bool = False,
        cell_zoneout: float = 0.0,
        candidate_dropout: float = 0.0,
        projection_units: int | None = None,
        peepholes: bool = False,
        cell_clip: float | None = None,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormSimpleRNN(keras.layers.RNN):
    """Run a SimpleRNN with normalization inside over sequences.

    ::

        h = tanh(kernel_norm(W x_t) + recurrent_norm(U h) + b)

    With `norm=None` the layer equals `keras.layers.SimpleRNN`.

    Args:
        units: size of the state and of the output.
        norm: a normalization layer, a dict from slots to layers, or None, as for
            `NormSimpleRNNCell`.
        norm_form: "separate", as above, or one norm of the sum, h = tanh(norm(W x_t + U h) + b):
            `candidate_norm` with "joint", `joint_norm` with "joint_all".
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.SimpleRNN` after `units`, in their order.
        compiled: whether XLA compiles the recurrence on TensorFlow. "auto" compiles it in training
            if the cell is supported, True also at inference, False never. On JAX and PyTorch it
            selects the custom gradient, and "auto" uses it at inference too.
        use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.
        **kwargs: arguments of `keras.layers.SimpleRNN`. With a per-sample norm, the bias is by
            default initialized from a normal distribution with deviation 1.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h, of shape (batch, units); by default zeros, or the weights of
            `learn_initial_state`.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.
        resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, if a
            row has several sequences. Before this timestep the states are set to `initial_state`,
            or else to zeros or the weights of `learn_initial_state`, also with `stateful=True`.
            Results equal those of each sequence alone. In training no norm may have batch
            statistics of a timestep.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: `norm` is not a layer, or an argument is unknown, missing or repeated.
        ValueError: a slot that the cell does not have, a norm over an axis other than the last, or
            an unknown `norm_form`.

    Example:
        >>> NormSimpleRNN(8, LayerNormalization())(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20, without the
        gates. Eq. 4, in section 3.1, is the joint form.
    """

    activation: Callable[..., Tensor]
    bias_constraint: keras.constraints.Constraint | None
    bias_initializer: keras.initializers.Initializer
    bias_regularizer: keras.regularizers.Regularizer | None
    compiled: bool | str
    dropout: float
    kernel_constraint: keras.constraints.Constraint | None
    kernel_initializer: keras.initializers.Initializer
    kernel_regularizer: keras.regularizers.Regularizer | None
    learn_initial_state: bool
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
    norm_form: str
    recurrent_constraint: keras.constraints.Constraint | None
    recurrent_dropout: float
    recurrent_initializer: keras.initializers.Initializer
    recurrent_regularizer: keras.regularizers.Regularizer | None
    seed: int | keras.random.SeedGenerator | None
    units: int
    use_bias: bool
    zoneout: float
    def __init__(
        self,
        units: int,
        norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None = None,
        activation: Serializable = "tanh",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        activity_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormalization(keras.layers.Layer):
    """Normalize each feature over all axes but the feature axis.

    ::

        y = gamma * (x - mean) / sqrt(var + epsilon) + beta

    Training uses the mean and biased variance of the batch, and updates the moving statistics with
    them. Inference uses the moving statistics, and so does a layer with `trainable=False`. The
    default values equal the defaults of `keras.layers.BatchNormalization`.

    Args:
        axis: the feature axis, which is not reduced.
        momentum: weight of the old value in the moving statistics, in [0, 1]. None computes the
            mean of the statistics of all batches.
        epsilon: number added to the variance.
        center: whether the layer has a beta.
        scale: whether the layer has a gamma.
        debias: divide the exponential average by 1 - momentum^n, so that inference is right after
            the first step.
        virtual_batch_size: largest number of samples that are normalized together in training
            ("ghost batch normalization"). The batch is split into ghost batches, as equal as whole
            samples allow. The moving statistics are updated once, with the mean of the statistics
            of the ghost batches. None for the whole batch.
        renorm: whether to use batch renormalization.
        renorm_clipping: dict with any of `rmax`, `rmin`, `dmax`.
        renorm_momentum: weight of the old value in the averages of batch renormalization.
        synchronized: normalize with the statistics of the global batch, of all replicas of a
            distributed step. If False, each replica normalizes with the statistics of its part. The
            moving statistics are those of the global batch with both values. On JAX both values
            have one result, because all statistics are those of the global batch.
        **kwargs: `unbiased_variance` (update the moving variance with n - 1 in place of n as the
            divisor), `moving_mean_initializer`, `moving_variance_initializer`,
            `beta_initializer`, `gamma_initializer`, `beta_regularizer`, `gamma_regularizer`,
            `beta_constraint`, `gamma_constraint`, and `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: floating tensor of rank 2 or more.
        training: whether to use the batch's statistics and to update the moving statistics.
        mask: True at unmasked positions: (batch, time), or the shape of `inputs` without one
            dimension. A fully masked batch is normalized with the moving statistics and does not
            update them.

    Raises:
        TypeError: the inputs are integers, the axis is not an integer, or an argument is unknown.
        ValueError: the axis is out of range; the mask has a wrong rank; momentum is outside [0, 1];
            `renorm_clipping` has an unknown key; `virtual_batch_size` is below 1, or is combined
            with `renorm` or `synchronized`.

    Example:
        >>> layer = BatchNormalization(momentum=None)
        >>> y = layer(np.array([[1.0], [3.0]]), training=True)
        >>> layer.moving_mean.numpy(), layer.moving_variance.numpy()
        (array([2.], dtype=float32), array([1.], dtype=float32))

    Reference:
        Ioffe and Szegedy, "Batch Normalization" (2015), arXiv 1502.03167, algorithms 1 and 2;
        Ioffe, "Batch Renormalization" (2017), arXiv 1702.03275; Hoffer, Hubara and Soudry, "Train
        longer, generalize better" (2017), arXiv 1705.08741, algorithm 1 (ghost batches).
    """

    axis: int
    beta: keras.Variable | None
    beta_constraint: keras.constraints.Constraint | None
    beta_initializer: keras.initializers.Initializer
    beta_regularizer: keras.regularizers.Regularizer | None
    center: bool
    debias: bool
    epsilon: float
    gamma: keras.Variable | None
    gamma_constraint: keras.constraints.Constraint | None
    gamma_initializer: keras.initializers.Initializer
    gamma_regularizer: keras.regularizers.Regularizer | None
    momentum: float | None
    moving_mean: keras.Variable
    moving_mean_initializer: keras.initializers.Initializer
    moving_variance: keras.Variable
    moving_variance_initializer: keras.initializers.Initializer
    renorm: bool
    renorm_clipping: dict[str, float] | None
    renorm_momentum: float
    scale: bool
    synchronized: bool
    unbiased_variance: bool
    update_count: keras.Variable | None
    virtual_batch_size: int | None
    def __init__(
        self,
        axis: int = -1,
        momentum: float | None = 0.99,
        epsilon: float = 0.001,
        center: bool = True,
        scale: bool = True,
        *,
        debias: bool = False,
        virtual_batch_size: int | None = None,
        renorm: bool = False,
        renorm_clipping: dict[str, float] | None = None,
        renorm_momentum: float = 0.99,
        synchronized: bool = False,
        unbiased_variance: bool = False,
        moving_mean_initializer: Serializable = "zeros",
        moving_variance_initializer: Serializable = "ones",
        beta_initializer: Serializable = "zeros",
        gamma_initializer: Serializable = "ones",
        beta_regularizer: Serializable = None,
        gamma_regularizer: Serializable = None,
        beta_constraint: Serializable = None,
        gamma_constraint: Serializable = None,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormalization(keras.layers.Layer):
    """Normalize each sample over its features.

    ::

        y = gamma * (x - mean) / sqrt(var + epsilon) + beta          "inside"
        y = gamma * (x - mean) / (sqrt(var) + epsilon) + beta        "outside"
        y = gamma * x / sqrt(var + epsilon)                          rms_scaling

    with mean and var over `axis`, and var = sum((x - mean)^2) / (n - ddof). The default values
    equal the defaults of `keras.layers.LayerNormalization`. `epsilon_placement="outside", ddof=1`
    gives the equation of "The Annotated Transformer".

    Args:
        axis: axis or axes to normalize over; gamma and beta have their shape.
        epsilon: number added to the variance ("inside") or to the deviation ("outside").
        center: whether the layer has a beta.
        scale: whether the layer has a gamma.
        epsilon_placement: "inside" or "outside" the square root.
        ddof: 0 for the biased variance, 1 for the unbiased variance.
        rms_scaling: multiply x, not x - mean, by gamma / sqrt(var + epsilon), without beta:
            `center` and `scale` are ignored. Keras has deprecated this argument. It is not
            `RMSNormalization`, which divides by the root mean square.
        **kwargs: `beta_initializer`, `gamma_initializer`, `beta_regularizer`, `gamma_regularizer`,
            `beta_constraint`, `gamma_constraint`, and `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: floating tensor of any rank. The layer passes its mask on.

    Raises:
        TypeError: the inputs are integers, an axis is not an integer, or an argument is unknown.
        ValueError: an axis is out of range or occurs twice; `epsilon_placement` or `ddof` has
            another value; there are too few features for `ddof`.

    Example:
        >>> layer = LayerNormalization(epsilon=1e-5)
        >>> layer(np.array([[1.0, 2.0, 3.0]])).numpy().round(4)
        array([[-1.2247,  0.    ,  1.2247]], dtype=float32)

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, section 3, eq. 3-4.
    """

    axis: int | Sequence[int]
    beta: keras.Variable | None
    beta_constraint: keras.constraints.Constraint | None
    beta_initializer: keras.initializers.Initializer
    beta_regularizer: keras.regularizers.Regularizer | None
    center: bool
    ddof: int
    epsilon: float
    epsilon_placement: str
    gamma: keras.Variable | None
    gamma_constraint: keras.constraints.Constraint | None
    gamma_initializer: keras.initializers.Initializer
    gamma_regularizer: keras.regularizers.Regularizer | None
    rms_scaling: bool
    scale: bool
    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 0.001,
        center: bool = True,
        scale: bool = True,
        *,
        epsilon_placement: str = "inside",
        ddof: int = 0,
        rms_scaling: bool = False,
        beta_initializer: Serializable = "zeros",
        gamma_initializer: Serializable = "ones",
        beta_regularizer: Serializable = None,
        gamma_regularizer: Serializable = None,
        beta_constraint: Serializable = None,
        gamma_constraint: Serializable = None,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class TimestepBatchNormalization(keras.layers.Layer):
    """Normalize each timestep over the batch, with separate statistics for each timestep.

    ::

        y_t = gamma * (x_t - mean_t) / sqrt(var_t + epsilon) + beta

    with mean_t and var_t over the sequences that are unmasked at timestep t. gamma and beta are
    shared over time. Training uses mean_t and var_t of the batch, and updates row t of the moving
    statistics. All timesteps beyond the last row update the last row. Inference uses row
    min(t, last row that training updated).

    The statistics of few sequences are noise. So a timestep with fewer unmasked sequences than
    `min_sequences`, and than an earlier timestep, uses the statistics of the last timestep that had
    enough, and updates nothing. A timestep with fewer than two, and without such a timestep before
    it, uses the moving statistics.

    t is 0 at the first unmasked timestep of each sequence, so padding on either side changes no
    output at an unmasked timestep. Later masked timesteps count.

    Args:
        max_timesteps: number of rows of moving statistics.
        momentum: weight of the old value in the moving statistics, in [0, 1]. None computes the
            mean of the statistics of all batches.
        epsilon: number added to the variance.
        center: whether the layer has a beta.
        scale: whether the layer has a gamma.
        debias: divide the average of each row by 1 - momentum^n, where n counts the updates of the
            row. The default is True because few batches reach the late timesteps.
        min_sequences: number of unmasked sequences that is enough for the statistics of a timestep.
            2 uses the statistics of every timestep that two sequences reach, as in the paper, and
            padded batches then train worse.
        count_leading_padding: whether t is 0 at the first timestep, masked or not. The default of
            `from_config` is True, so that files of earlier revisions give their old outputs.
        **kwargs: `synchronized` of `BatchNormalization`; `unbiased_variance`,
            `moving_mean_initializer`, `moving_variance_initializer`, `beta_initializer`,
            `gamma_initializer`, `beta_regularizer`, `gamma_regularizer`, `beta_constraint`,
            `gamma_constraint`; and `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (batch, time, features), or (batch, features) with `step`.
        training: whether to use the batch's statistics and to update the moving statistics.
        mask: (batch, time), or (batch,) with `step`; True at unmasked timesteps.
        step: the timestep of `inputs`, an int or int tensor counted from 0; None for whole
            sequences. At inference it may be a tensor (batch,), with a timestep for each sequence.
            Training with such a tensor uses its maximum.

    Weights:
        gamma and beta (features,), moving_mean and moving_variance (max_timesteps, features), and
        update_count (max_timesteps,), the number of updates of each row.

    Raises:
        TypeError: the inputs are integers, an argument is unknown, or `max_timesteps` is missing.
        ValueError: `max_timesteps` is below 1, `min_sequences` is below 2, `step` is negative, or
            the inputs or the mask have another rank.

    Example:
        >>> layer = TimestepBatchNormalization(max_timesteps=5)
        >>> y = layer(np.random.default_rng(0).normal(size=(32, 5, 3)), training=True)
        >>> layer.update_count.numpy()
        array([1, 1, 1, 1, 1], dtype=int32)

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, section 3.
    """

    beta: keras.Variable | None
    beta_constraint: keras.constraints.Constraint | None
    beta_initializer: keras.initializers.Initializer
    beta_regularizer: keras.regularizers.Regularizer | None
    center: bool
    count_leading_padding: bool
    debias: bool
    epsilon: float
    gamma: keras.Variable | None
    gamma_constraint: keras.constraints.Constraint | None
    gamma_initializer: keras.initializers.Initializer
    gamma_regularizer: keras.regularizers.Regularizer | None
    max_timesteps: int
    min_sequences: int
    momentum: float | None
    moving_mean: keras.Variable
    moving_mean_initializer: keras.initializers.Initializer
    moving_variance: keras.Variable
    moving_variance_initializer: keras.initializers.Initializer
    scale: bool
    synchronized: bool
    unbiased_variance: bool
    update_count: keras.Variable | None
    def __init__(
        self,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-05,
        center: bool = True,
        scale: bool = True,
        *,
        debias: bool = True,
        min_sequences: int = 8,
        count_leading_padding: bool = False,
        unbiased_variance: bool = False,
        synchronized: bool = False,
        moving_mean_initializer: Serializable = "zeros",
        moving_variance_initializer: Serializable = "ones",
        beta_initializer: Serializable = "zeros",
        gamma_initializer: Serializable = "ones",
        beta_regularizer: Serializable = None,
        gamma_regularizer: Serializable = None,
        beta_constraint: Serializable = None,
        gamma_constraint: Serializable = None,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class VarianceNormalization(keras.layers.Layer):
    """Divide each sample by the standard deviation of its features, without centering.

    ::

        y = gamma * x / sqrt(var(x) + epsilon) + beta

    As in the paper, the layer has neither gamma nor beta by default.

    Args:
        axis: axis or axes to normalize over; gamma and beta have their shape.
        epsilon: number added to the variance.
        center: whether the layer has a beta.
        scale: whether the layer has a gamma.
        **kwargs: `beta_initializer`, `gamma_initializer`, `beta_regularizer`, `gamma_regularizer`,
            `beta_constraint`, `gamma_constraint`, and `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: floating tensor of any rank. The layer passes its mask on.

    Raises:
        TypeError: the inputs are integers, an axis is not an integer, or an argument is unknown.
        ValueError: an axis is out of range or occurs twice; epsilon is negative.

    Example:
        >>> VarianceNormalization(epsilon=0.0)(np.array([[1.0, 2.0, 3.0]])).numpy().round(4)
        array([[1.2247, 2.4495, 3.6742]], dtype=float32)

    Reference:
        Wang et al., "Correct Normalization Matters: Understanding the Effect of Normalization on
        Deep Neural Network Models for Click-Through Rate Prediction" (2020), arXiv 2006.12753,
        section 3 (VO-LN).
    """

    axis: int | Sequence[int]
    beta: keras.Variable | None
    beta_constraint: keras.constraints.Constraint | None
    beta_initializer: keras.initializers.Initializer
    beta_regularizer: keras.regularizers.Regularizer | None
    center: bool
    epsilon: float
    gamma: keras.Variable | None
    gamma_constraint: keras.constraints.Constraint | None
    gamma_initializer: keras.initializers.Initializer
    gamma_regularizer: keras.regularizers.Regularizer | None
    scale: bool
    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 0.001,
        center: bool = False,
        scale: bool = False,
        *,
        beta_initializer: Serializable = "zeros",
        gamma_initializer: Serializable = "ones",
        beta_regularizer: Serializable = None,
        gamma_regularizer: Serializable = None,
        beta_constraint: Serializable = None,
        gamma_constraint: Serializable = None,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormGRU(NormGRU):
    """Run a GRU with recurrent BatchNorm inside over sequences.

    ::

        z, r = s(BN_t((W x_t)_zr) + BN_t((U h)_zr) + b_zr)
        n = tanh(BN_t((W x_t)_h) + r * BN_t((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    s is the sigmoid. The norms of the gates z and r are over 2 * units together. The reset gate
    acts after the norm, and there is one bias.

    BN_t uses the batch statistics of timestep t in training, and the moving statistics of timestep
    t at inference. Every BN_t has its own statistics and gamma. All timesteps share gamma, which is
    initialized to 0.1. Only the norm of c, in an LSTM, has a beta.

    Timestep 0 of a sequence is its first unmasked timestep, in the order of the loop. So padding
    on either side changes no output, also with `go_backwards=True` and in `Bidirectional`. Later
    masked timesteps count.

    The statistics of few sequences are noise. So in training, a timestep that fewer than
    `min_sequences` sequences of a padded batch reach has the statistics of the last timestep that
    enough reach. Give batches of 32 or more, with a mask. With sequences of one length this is the
    equation of the paper.

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
        min_sequences: number of unmasked sequences that is enough for the statistics of a timestep.
            2 uses the statistics of every timestep. Padded batches then train worse.
        count_leading_padding: whether timesteps before the first unmasked timestep count too. The
            default of `from_config` is True, so that files of earlier revisions give their old
            outputs.
        synchronized: whether the replicas of a distributed step normalize with the statistics of
            the global batch. The moving statistics are those of the global batch with both values.
            TensorFlow does not support it, and JAX always does it.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms z, r, a are
            norm(W x_t + U h) + b, and n = tanh(s(r) * a). "joint" has a norm for each gate, over
            units: `update_norm`, `reset_norm` and `candidate_norm`. "joint_all" has one norm over
            all 3 * units together, `joint_norm`, as the GRU of DreamerV2 (Hafner et al. 2021). Pass
            "joint_all" if the size of x carries information, because the norm of W x_t removes it.
        unit_update_bias: whether the initial bias of z is 1, as `unit_forget_bias` of an LSTM. The
            state then changes slowly at the start of training. Dreamer's update gate is 1 - z, with
            a bias of -1.
        candidate_dropout: probability p of dropout of the candidate. In training n is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.GRU` after `units`, in their order.
        compiled: whether XLA compiles the recurrence on TensorFlow. "auto" compiles it in training
            if the cell is supported, True also at inference, False never. On JAX and PyTorch it
            selects the custom gradient, and "auto" uses it at inference too.
        use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.
        **kwargs: arguments of `keras.layers.GRU`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h, of shape (batch, units); by default zeros, or the weights of
            `learn_initial_state`.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.
        resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, if a
            row has several sequences. Before this timestep the states are set to `initial_state`,
            or else to zeros or the weights of `learn_initial_state`, also with `stateful=True`.
            Results equal those of each sequence alone. In training no norm may have batch
            statistics of a timestep.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> BatchNormGRU(8, max_timesteps=5)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6-8
        (an LSTM).
    """

    count_leading_padding: bool
    debias: bool
    epsilon: float
    max_timesteps: int
    min_sequences: int
    momentum: float | None
    synchronized: bool
    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-05,
        debias: bool = True,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        activity_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: bool | str = "auto",
        *,
        synchronized: bool = False,
        min_sequences: int = 8,
        count_leading_padding: bool = False,
        unit_update_bias: bool = False,
        candidate_dropout: float = 0.0,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormLSTM(NormLSTM):
    """Run an LSTM with recurrent BatchNorm inside over sequences.

    ::

        i, f, g, o = BN_t(W x_t) + BN_t(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(BN_t(c))

    s is the sigmoid. The norms of W x_t and of U h are over all 4 * units together. The next step
    receives c, not BN_t(c).

    BN_t uses the batch statistics of timestep t in training, and the moving statistics of timestep
    t at inference. Every BN_t has its own statistics and gamma. All timesteps share gamma, which is
    initialized to 0.1. Only the norm of c, in an LSTM, has a beta.

    Timestep 0 of a sequence is its first unmasked timestep, in the order of the loop. So padding
    on either side changes no output, also with `go_backwards=True` and in `Bidirectional`. Later
    masked timesteps count.

    The statistics of few sequences are noise. So in training, a timestep that fewer than
    `min_sequences` sequences of a padded batch reach has the statistics of the last timestep that
    enough reach. Give batches of 32 or more, with a mask. With sequences of one length this is the
    equation of the paper.

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
        min_sequences: number of unmasked sequences that is enough for the statistics of a timestep.
            2 uses the statistics of every timestep. Padded batches then train worse.
        count_leading_padding: whether timesteps before the first unmasked timestep count too. The
            default of `from_config` is True, so that files of earlier revisions give their old
            outputs.
        synchronized: whether the replicas of a distributed step normalize with the statistics of
            the global batch. The moving statistics are those of the global batch with both values.
            TensorFlow does not support it, and JAX always does it.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms i, f, g, o are
            norm(W x_t + U h) + b, and c has no norm. "joint" has a norm for each gate, over units:
            `input_norm`, `forget_norm`, `cell_norm` and `output_norm`. "joint_all" has one norm
            over all 4 * units together, `joint_norm`. Pass "joint" if the size of x, such as an
            amplitude, carries information, because the norm of W x_t removes it.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        cell_zoneout: the same probability for c.
        candidate_dropout: probability p of dropout of the candidate. In training tanh(g) is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        projection_units: None, or the size of h = projection_norm(P (s(o) * tanh(state_norm(c)))).
            P is a matrix, and `projection_norm` a further slot of the separate form (Sak et al.
            2014, arXiv 1402.1128). c has the size `units`.
        peepholes: whether the gates read c. i and f then have the further terms p_i * c and p_f * c
            with the c before the step, and o the term p_o * c with the new c (Gers et al. 2002,
            "Learning Precise Timing with LSTM Recurrent Networks"). p_i, p_f and p_o (units,) are
            zeros before training.
        cell_clip: None, or the bound of c: c becomes min(max(c, -`cell_clip`), `cell_clip`) before
            `state_norm` and o read it, as in TensorFlow's `BlockLSTM`.
        normalize_carry: whether the next step receives state_norm(c), as in the cell of TensorFlow
            Addons, in place of c, as in the paper.
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.LSTM` after `units`, in their order.
        compiled: whether XLA compiles the recurrence on TensorFlow. "auto" compiles it in training
            if the cell is supported, True also at inference, False never. On JAX and PyTorch it
            selects the custom gradient, and "auto" uses it at inference too.
        use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.
        **kwargs: arguments of `keras.layers.LSTM`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h and c, of shape (batch, units); by default zeros, or the weights of
            `learn_initial_state`.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.
        resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, if a
            row has several sequences. Before this timestep the states are set to `initial_state`,
            or else to zeros or the weights of `learn_initial_state`, also with `stateful=True`.
            Results equal those of each sequence alone. In training no norm may have batch
            statistics of a timestep.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> BatchNormLSTM(8, max_timesteps=5)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6-8
        (an LSTM).
    """

    count_leading_padding: bool
    debias: bool
    epsilon: float
    max_timesteps: int
    min_sequences: int
    momentum: float | None
    synchronized: bool
    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-05,
        debias: bool = True,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        activity_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = "auto",
        *,
        synchronized: bool = False,
        min_sequences: int = 8,
        count_leading_padding: bool = False,
        normalize_carry: bool = False,
        cell_zoneout: float = 0.0,
        candidate_dropout: float = 0.0,
        projection_units: int | None = None,
        peepholes: bool = False,
        cell_clip: float | None = None,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormSimpleRNN(NormSimpleRNN):
    """Run a SimpleRNN with recurrent BatchNorm inside over sequences.

    ::

        h = tanh(BN_t(W x_t) + BN_t(U h) + b)

    BN_t uses the batch statistics of timestep t in training, and the moving statistics of timestep
    t at inference. Every BN_t has its own statistics and gamma. All timesteps share gamma, which is
    initialized to 0.1. Only the norm of c, in an LSTM, has a beta.

    Timestep 0 of a sequence is its first unmasked timestep, in the order of the loop. So padding
    on either side changes no output, also with `go_backwards=True` and in `Bidirectional`. Later
    masked timesteps count.

    The statistics of few sequences are noise. So in training, a timestep that fewer than
    `min_sequences` sequences of a padded batch reach has the statistics of the last timestep that
    enough reach. Give batches of 32 or more, with a mask. With sequences of one length this is the
    equation of the paper.

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
        min_sequences: number of unmasked sequences that is enough for the statistics of a timestep.
            2 uses the statistics of every timestep. Padded batches then train worse.
        count_leading_padding: whether timesteps before the first unmasked timestep count too. The
            default of `from_config` is True, so that files of earlier revisions give their old
            outputs.
        synchronized: whether the replicas of a distributed step normalize with the statistics of
            the global batch. The moving statistics are those of the global batch with both values.
            TensorFlow does not support it, and JAX always does it.
        norm_form: "separate", as above, or one norm of the sum, h = tanh(norm(W x_t + U h) + b):
            `candidate_norm` with "joint", `joint_norm` with "joint_all".
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.SimpleRNN` after `units`, in their order.
        compiled: whether XLA compiles the recurrence on TensorFlow. "auto" compiles it in training
            if the cell is supported, True also at inference, False never. On JAX and PyTorch it
            selects the custom gradient, and "auto" uses it at inference too.
        use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.
        **kwargs: arguments of `keras.layers.SimpleRNN`. With a per-sample norm, the bias is by
            default initialized from a normal distribution with deviation 1.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h, of shape (batch, units); by default zeros, or the weights of
            `learn_initial_state`.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.
        resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, if a
            row has several sequences. Before this timestep the states are set to `initial_state`,
            or else to zeros or the weights of `learn_initial_state`, also with `stateful=True`.
            Results equal those of each sequence alone. In training no norm may have batch
            statistics of a timestep.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> BatchNormSimpleRNN(8, max_timesteps=5)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6-8
        (an LSTM).
    """

    count_leading_padding: bool
    debias: bool
    epsilon: float
    max_timesteps: int
    min_sequences: int
    momentum: float | None
    synchronized: bool
    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-05,
        debias: bool = True,
        activation: Serializable = "tanh",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        activity_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        synchronized: bool = False,
        min_sequences: int = 8,
        count_leading_padding: bool = False,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormGRU(NormGRU):
    """Run a GRU with LayerNorm inside over sequences.

    ::

        z, r = s(LN((W x_t)_zr) + LN((U h)_zr) + b_zr)
        n = tanh(LN((W x_t)_h) + r * LN((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    s is the sigmoid. The norms of the gates z and r are over 2 * units together. The reset gate
    acts after the norm, and there is one bias.

    Every LayerNorm (LN) has its own gamma and beta.

    Args:
        units: size of the state and of the output.
        epsilon: number that the norms add to the variance.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms z, r, a are
            norm(W x_t + U h) + b, and n = tanh(s(r) * a). "joint" has a norm for each gate, over
            units: `update_norm`, `reset_norm` and `candidate_norm`. "joint_all" has one norm over
            all 3 * units together, `joint_norm`, as the GRU of DreamerV2 (Hafner et al. 2021). Pass
            "joint_all" if the size of x carries information, because the norm of W x_t removes it.
        unit_update_bias: whether the initial bias of z is 1, as `unit_forget_bias` of an LSTM. The
            state then changes slowly at the start of training. Dreamer's update gate is 1 - z, with
            a bias of -1.
        candidate_dropout: probability p of dropout of the candidate. In training n is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.GRU` after `units`, in their order.
        compiled: whether XLA compiles the recurrence on TensorFlow. "auto" compiles it in training
            if the cell is supported, True also at inference, False never. On JAX and PyTorch it
            selects the custom gradient, and "auto" uses it at inference too.
        use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.
        **kwargs: arguments of `keras.layers.GRU`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h, of shape (batch, units); by default zeros, or the weights of
            `learn_initial_state`.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.
        resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, if a
            row has several sequences. Before this timestep the states are set to `initial_state`,
            or else to zeros or the weights of `learn_initial_state`, also with `stateful=True`.
            Results equal those of each sequence alone. In training no norm may have batch
            statistics of a timestep.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> LayerNormGRU(8)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, supplement. As
        in Keras, z and 1 - z are swapped.
    """

    epsilon: float
    def __init__(
        self,
        units: int,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        activity_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: bool | str = "auto",
        *,
        epsilon: float = 1e-05,
        unit_update_bias: bool = False,
        candidate_dropout: float = 0.0,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormLSTM(NormLSTM):
    """Run an LSTM with LayerNorm inside over sequences.

    ::

        i, f, g, o = LN(W x_t) + LN(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(LN(c))

    s is the sigmoid. The norms of W x_t and of U h are over all 4 * units together. The next step
    receives c, not LN(c).

    Every LayerNorm (LN) has its own gamma and beta.

    Args:
        units: size of the state and of the output.
        epsilon: number that the norms add to the variance.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms i, f, g, o are
            norm(W x_t + U h) + b, and c has no norm. "joint" has a norm for each gate, over units:
            `input_norm`, `forget_norm`, `cell_norm` and `output_norm`. "joint_all" has one norm
            over all 4 * units together, `joint_norm`. Pass "joint" if the size of x, such as an
            amplitude, carries information, because the norm of W x_t removes it.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        cell_zoneout: the same probability for c.
        candidate_dropout: probability p of dropout of the candidate. In training tanh(g) is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        projection_units: None, or the size of h = projection_norm(P (s(o) * tanh(state_norm(c)))).
            P is a matrix, and `projection_norm` a further slot of the separate form (Sak et al.
            2014, arXiv 1402.1128). c has the size `units`.
        peepholes: whether the gates read c. i and f then have the further terms p_i * c and p_f * c
            with the c before the step, and o the term p_o * c with the new c (Gers et al. 2002,
            "Learning Precise Timing with LSTM Recurrent Networks"). p_i, p_f and p_o (units,) are
            zeros before training.
        cell_clip: None, or the bound of c: c becomes min(max(c, -`cell_clip`), `cell_clip`) before
            `state_norm` and o read it, as in TensorFlow's `BlockLSTM`.
        normalize_carry: whether the next step receives state_norm(c), as in the cell of TensorFlow
            Addons, in place of c, as in the paper.
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.LSTM` after `units`, in their order.
        compiled: whether XLA compiles the recurrence on TensorFlow. "auto" compiles it in training
            if the cell is supported, True also at inference, False never. On JAX and PyTorch it
            selects the custom gradient, and "auto" uses it at inference too.
        use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.
        **kwargs: arguments of `keras.layers.LSTM`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h and c, of shape (batch, units); by default zeros, or the weights of
            `learn_initial_state`.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.
        resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, if a
            row has several sequences. Before this timestep the states are set to `initial_state`,
            or else to zeros or the weights of `learn_initial_state`, also with `stateful=True`.
            Results equal those of each sequence alone. In training no norm may have batch
            statistics of a timestep.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> LayerNormLSTM(8)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20-22.
    """

    epsilon: float
    def __init__(
        self,
        units: int,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        activity_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = "auto",
        *,
        epsilon: float = 1e-05,
        normalize_carry: bool = False,
        cell_zoneout: float = 0.0,
        candidate_dropout: float = 0.0,
        projection_units: int | None = None,
        peepholes: bool = False,
        cell_clip: float | None = None,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormSimpleRNN(NormSimpleRNN):
    """Run a SimpleRNN with LayerNorm inside over sequences.

    ::

        h = tanh(LN(W x_t) + LN(U h) + b)

    Every LayerNorm (LN) has its own gamma and beta.

    Args:
        units: size of the state and of the output.
        epsilon: number that the norms add to the variance.
        norm_form: "separate", as above, or one norm of the sum, h = tanh(norm(W x_t + U h) + b):
            `candidate_norm` with "joint", `joint_norm` with "joint_all".
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.SimpleRNN` after `units`, in their order.
        compiled: whether XLA compiles the recurrence on TensorFlow. "auto" compiles it in training
            if the cell is supported, True also at inference, False never. On JAX and PyTorch it
            selects the custom gradient, and "auto" uses it at inference too.
        use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.
        **kwargs: arguments of `keras.layers.SimpleRNN`. With a per-sample norm, the bias is by
            default initialized from a normal distribution with deviation 1.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h, of shape (batch, units); by default zeros, or the weights of
            `learn_initial_state`.
        mask: bool (batch, time), True at unmasked timesteps.
        training: whether to apply dropout and to use batch statistics.
        resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, if a
            row has several sequences. Before this timestep the states are set to `initial_state`,
            or else to zeros or the weights of `learn_initial_state`, also with `stateful=True`.
            Results equal those of each sequence alone. In training no norm may have batch
            statistics of a timestep.

    Returns:
        The last output (batch, units), or with `return_sequences=True` the outputs at every
        timestep (batch, time, units). With `return_state=True` the states follow.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> LayerNormSimpleRNN(8)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20, without the
        gates. Eq. 4, in section 3.1, is the joint form.
    """

    epsilon: float
    def __init__(
        self,
        units: int,
        activation: Serializable = "tanh",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        activity_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        epsilon: float = 1e-05,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormGRUCell(keras.layers.GRUCell):
    """Compute one step of a GRU with normalization inside.

    ::

        z, r = s(kernel_norm((W x_t)_zr) + recurrent_norm((U h)_zr) + b_zr)
        n = tanh(kernel_candidate_norm((W x_t)_h) + r * recurrent_candidate_norm((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    s is the sigmoid. The norms of the gates z and r are over 2 * units together. The reset gate
    acts after the norm, and there is one bias.

    With `norm=None` the cell equals `keras.layers.GRUCell`: it has two biases, or
    `reset_after=False`. In a joint form it has one bias, and another equation than Keras.

    Args:
        units: size of h.
        norm: a normalization layer, copied into each slot (`kernel_norm`, `recurrent_norm`,
            `kernel_candidate_norm` and `recurrent_candidate_norm`); a dict from slots to layers; or
            None. A slot that is missing from the dict has no norm.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms z, r, a are
            norm(W x_t + U h) + b, and n = tanh(s(r) * a). "joint" has a norm for each gate, over
            units: `update_norm`, `reset_norm` and `candidate_norm`. "joint_all" has one norm over
            all 3 * units together, `joint_norm`, as the GRU of DreamerV2 (Hafner et al. 2021). Pass
            "joint_all" if the size of x carries information, because the norm of W x_t removes it.
        unit_update_bias: whether the initial bias of z is 1, as `unit_forget_bias` of an LSTM. The
            state then changes slowly at the start of training. Dreamer's update gate is 1 - z, with
            a bias of -1.
        candidate_dropout: probability p of dropout of the candidate. In training n is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.GRUCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.GRUCell`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h, (batch, units). With statistics per timestep, a timestep counter follows, as for
            `NormLSTMCell`.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, then the weights of each slot.

    Raises:
        TypeError: `norm` is not a layer, or an argument is unknown, missing or repeated.
        ValueError: a slot that the cell does not have, a norm over an axis other than the last, an
            unknown `norm_form`, a norm or a joint form together with `reset_after=False`, or
            `unit_update_bias=True` together with `use_bias=False`.

    Example:
        >>> keras.layers.RNN(NormGRUCell(8, LayerNormalization()))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, supplement. As
        in Keras, z and 1 - z are swapped.
    """

    candidate_dropout: float
    learn_initial_state: bool
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
    norm_form: str
    unit_update_bias: bool
    zoneout: float
    def __init__(
        self,
        units: int,
        norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None = None,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        unit_update_bias: bool = False,
        candidate_dropout: float = 0.0,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormLSTMCell(keras.layers.LSTMCell):
    """Compute one step of an LSTM with normalization inside.

    ::

        i, f, g, o = kernel_norm(W x_t) + recurrent_norm(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(state_norm(c))

    s is the sigmoid. The norms of W x_t and of U h are over all 4 * units together. The next step
    receives c, not state_norm(c).

    With `norm=None` the cell equals `keras.layers.LSTMCell`, in every `norm_form`.

    Args:
        units: size of h and c.
        norm: a normalization layer, copied into each slot (`kernel_norm`, `recurrent_norm` and
            `state_norm`); a dict from slots to layers; or None. A slot that is missing from the
            dict has no norm.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms i, f, g, o are
            norm(W x_t + U h) + b, and c has no norm. "joint" has a norm for each gate, over units:
            `input_norm`, `forget_norm`, `cell_norm` and `output_norm`. "joint_all" has one norm
            over all 4 * units together, `joint_norm`. Pass "joint" if the size of x, such as an
            amplitude, carries information, because the norm of W x_t removes it.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        cell_zoneout: the same probability for c.
        candidate_dropout: probability p of dropout of the candidate. In training tanh(g) is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        projection_units: None, or the size of h = projection_norm(P (s(o) * tanh(state_norm(c)))).
            P is a matrix, and `projection_norm` a further slot of the separate form (Sak et al.
            2014, arXiv 1402.1128). c has the size `units`.
        peepholes: whether the gates read c. i and f then have the further terms p_i * c and p_f * c
            with the c before the step, and o the term p_o * c with the new c (Gers et al. 2002,
            "Learning Precise Timing with LSTM Recurrent Networks"). p_i, p_f and p_o (units,) are
            zeros before training.
        cell_clip: None, or the bound of c: c becomes min(max(c, -`cell_clip`), `cell_clip`) before
            `state_norm` and o read it, as in TensorFlow's `BlockLSTM`.
        normalize_carry: whether the next step receives state_norm(c), as in the cell of TensorFlow
            Addons, in place of c, as in the paper.
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.LSTMCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.LSTMCell`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h and c, each (batch, units). With statistics per timestep, a timestep counter
            (batch, 2) follows, which is zero before the first step. keras.layers.RNN calls a cell
            twice at the first timestep, so these statistics are updated twice there. It also hides
            the mask from the cell. Prefer `NormLSTM`, which has neither problem.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, the peepholes of i, f and o, the
        projection_kernel, then the weights of each slot.

    Raises:
        TypeError: `norm` is not a layer, or an argument is unknown, missing or repeated.
        ValueError: a slot that the cell does not have, a norm over an axis other than the last, an
            unknown `norm_form`, `normalize_carry` with a joint form, or an option out of its range.

    Example:
        >>> cell = NormLSTMCell(8, norm=RMSNormalization())
        >>> keras.layers.RNN(cell)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20-22.
    """

    candidate_dropout: float
    cell_clip: float | None
    cell_zoneout: float
    learn_initial_state: bool
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
    norm_form: str
    normalize_carry: bool
    peepholes: bool
    projection_units: int | None
    zoneout: float
    def __init__(
        self,
        units: int,
        norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None = None,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        normalize_carry: bool = False,
        cell_zoneout: float = 0.0,
        candidate_dropout: float = 0.0,
        projection_units: int | None = None,
        peepholes: bool = False,
        cell_clip: float | None = None,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormSimpleRNNCell(keras.layers.SimpleRNNCell):
    """Compute one step of a SimpleRNN with normalization inside.

    ::

        h = tanh(kernel_norm(W x_t) + recurrent_norm(U h) + b)

    With `norm=None` the cell equals `keras.layers.SimpleRNNCell`.

    Args:
        units: size of h.
        norm: a normalization layer, copied into each slot (`kernel_norm` and `recurrent_norm`); a
            dict from slots to layers; or None. A slot that is missing from the dict has no norm.
        norm_form: "separate", as above, or one norm of the sum, h = tanh(norm(W x_t + U h) + b):
            `candidate_norm` with "joint", `joint_norm` with "joint_all".
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.SimpleRNNCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.SimpleRNNCell`. With a per-sample norm, the bias is by
            default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h, (batch, units). With statistics per timestep, a timestep counter follows, as for
            `NormLSTMCell`.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, then the weights of each slot.

    Raises:
        TypeError: `norm` is not a layer, or an argument is unknown, missing or repeated.
        ValueError: a slot that the cell does not have, a norm over an axis other than the last, or
            an unknown `norm_form`.

    Example:
        >>> keras.layers.RNN(NormSimpleRNNCell(8, LayerNormalization()))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20, without the
        gates. Eq. 4, in section 3.1, is the joint form.
    """

    learn_initial_state: bool
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
    norm_form: str
    zoneout: float
    def __init__(
        self,
        units: int,
        norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None = None,
        activation: Serializable = "tanh",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormGRUCell(NormGRUCell):
    """Compute one step of a GRU with recurrent BatchNorm inside.

    ::

        z, r = s(BN_t((W x_t)_zr) + BN_t((U h)_zr) + b_zr)
        n = tanh(BN_t((W x_t)_h) + r * BN_t((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    s is the sigmoid. The norms of the gates z and r are over 2 * units together. The reset gate
    acts after the norm, and there is one bias.

    BN_t uses the batch statistics of timestep t in training, and the moving statistics of timestep
    t at inference. Every BN_t has its own statistics and gamma. All timesteps share gamma, which is
    initialized to 0.1. Only the norm of c, in an LSTM, has a beta.

    Timestep 0 of a sequence is its first unmasked timestep, in the order of the loop. So padding
    on either side changes no output, also with `go_backwards=True` and in `Bidirectional`. Later
    masked timesteps count.

    The statistics of few sequences are noise. So in training, a timestep that fewer than
    `min_sequences` sequences of a padded batch reach has the statistics of the last timestep that
    enough reach. Give batches of 32 or more, with a mask. With sequences of one length this is the
    equation of the paper.

    Every call counts timesteps from 0. If you cut a sequence into pieces with `stateful=True` or
    `initial_state`, every piece uses the statistics of the first timesteps.
    The moving statistics lag behind the weights: call `keras_norm.recalibrate` before you export.

    Args:
        units: size of h.
        max_timesteps: number of timesteps with their own statistics. Later timesteps share the
            statistics of the last one.
        momentum: weight of earlier batches in the moving statistics; None averages all batches.
        epsilon: number that the norms add to the variance.
        debias: whether to correct the moving statistics for their initial values 0 and 1.
        min_sequences: number of unmasked sequences that is enough for the statistics of a timestep.
            2 uses the statistics of every timestep. Padded batches then train worse.
        count_leading_padding: whether timesteps before the first unmasked timestep count too. The
            default of `from_config` is True, so that files of earlier revisions give their old
            outputs.
        synchronized: whether the replicas of a distributed step normalize with the statistics of
            the global batch. The moving statistics are those of the global batch with both values.
            TensorFlow does not support it, and JAX always does it.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms z, r, a are
            norm(W x_t + U h) + b, and n = tanh(s(r) * a). "joint" has a norm for each gate, over
            units: `update_norm`, `reset_norm` and `candidate_norm`. "joint_all" has one norm over
            all 3 * units together, `joint_norm`, as the GRU of DreamerV2 (Hafner et al. 2021). Pass
            "joint_all" if the size of x carries information, because the norm of W x_t removes it.
        unit_update_bias: whether the initial bias of z is 1, as `unit_forget_bias` of an LSTM. The
            state then changes slowly at the start of training. Dreamer's update gate is 1 - z, with
            a bias of -1.
        candidate_dropout: probability p of dropout of the candidate. In training n is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.GRUCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.GRUCell`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h, (batch, units). With statistics per timestep, a timestep counter follows, as for
            `NormLSTMCell`.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, then the weights of each slot.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> keras.layers.RNN(BatchNormGRUCell(8, max_timesteps=5))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6-8
        (an LSTM).
    """

    count_leading_padding: bool
    debias: bool
    epsilon: float
    kernel_candidate_norm: TimestepBatchNormalization
    kernel_norm: TimestepBatchNormalization
    max_timesteps: int
    min_sequences: int
    momentum: float | None
    recurrent_candidate_norm: TimestepBatchNormalization
    recurrent_norm: TimestepBatchNormalization
    synchronized: bool
    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-05,
        debias: bool = True,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        synchronized: bool = False,
        min_sequences: int = 8,
        count_leading_padding: bool = False,
        unit_update_bias: bool = False,
        candidate_dropout: float = 0.0,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormLSTMCell(NormLSTMCell):
    """Compute one step of an LSTM with recurrent BatchNorm inside.

    ::

        i, f, g, o = BN_t(W x_t) + BN_t(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(BN_t(c))

    s is the sigmoid. The norms of W x_t and of U h are over all 4 * units together. The next step
    receives c, not BN_t(c).

    BN_t uses the batch statistics of timestep t in training, and the moving statistics of timestep
    t at inference. Every BN_t has its own statistics and gamma. All timesteps share gamma, which is
    initialized to 0.1. Only the norm of c, in an LSTM, has a beta.

    Timestep 0 of a sequence is its first unmasked timestep, in the order of the loop. So padding
    on either side changes no output, also with `go_backwards=True` and in `Bidirectional`. Later
    masked timesteps count.

    The statistics of few sequences are noise. So in training, a timestep that fewer than
    `min_sequences` sequences of a padded batch reach has the statistics of the last timestep that
    enough reach. Give batches of 32 or more, with a mask. With sequences of one length this is the
    equation of the paper.

    Every call counts timesteps from 0. If you cut a sequence into pieces with `stateful=True` or
    `initial_state`, every piece uses the statistics of the first timesteps.
    The moving statistics lag behind the weights: call `keras_norm.recalibrate` before you export.

    Args:
        units: size of h and c.
        max_timesteps: number of timesteps with their own statistics. Later timesteps share the
            statistics of the last one.
        momentum: weight of earlier batches in the moving statistics; None averages all batches.
        epsilon: number that the norms add to the variance.
        debias: whether to correct the moving statistics for their initial values 0 and 1.
        min_sequences: number of unmasked sequences that is enough for the statistics of a timestep.
            2 uses the statistics of every timestep. Padded batches then train worse.
        count_leading_padding: whether timesteps before the first unmasked timestep count too. The
            default of `from_config` is True, so that files of earlier revisions give their old
            outputs.
        synchronized: whether the replicas of a distributed step normalize with the statistics of
            the global batch. The moving statistics are those of the global batch with both values.
            TensorFlow does not support it, and JAX always does it.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms i, f, g, o are
            norm(W x_t + U h) + b, and c has no norm. "joint" has a norm for each gate, over units:
            `input_norm`, `forget_norm`, `cell_norm` and `output_norm`. "joint_all" has one norm
            over all 4 * units together, `joint_norm`. Pass "joint" if the size of x, such as an
            amplitude, carries information, because the norm of W x_t removes it.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        cell_zoneout: the same probability for c.
        candidate_dropout: probability p of dropout of the candidate. In training tanh(g) is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        projection_units: None, or the size of h = projection_norm(P (s(o) * tanh(state_norm(c)))).
            P is a matrix, and `projection_norm` a further slot of the separate form (Sak et al.
            2014, arXiv 1402.1128). c has the size `units`.
        peepholes: whether the gates read c. i and f then have the further terms p_i * c and p_f * c
            with the c before the step, and o the term p_o * c with the new c (Gers et al. 2002,
            "Learning Precise Timing with LSTM Recurrent Networks"). p_i, p_f and p_o (units,) are
            zeros before training.
        cell_clip: None, or the bound of c: c becomes min(max(c, -`cell_clip`), `cell_clip`) before
            `state_norm` and o read it, as in TensorFlow's `BlockLSTM`.
        normalize_carry: whether the next step receives state_norm(c), as in the cell of TensorFlow
            Addons, in place of c, as in the paper.
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.LSTMCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.LSTMCell`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h and c, each (batch, units). With statistics per timestep, a timestep counter
            (batch, 2) follows, which is zero before the first step. keras.layers.RNN calls a cell
            twice at the first timestep, so these statistics are updated twice there. It also hides
            the mask from the cell. Prefer `NormLSTM`, which has neither problem.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, the peepholes of i, f and o, the
        projection_kernel, then the weights of each slot.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> keras.layers.RNN(BatchNormLSTMCell(8, max_timesteps=5))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6-8
        (an LSTM).
    """

    count_leading_padding: bool
    debias: bool
    epsilon: float
    kernel_norm: TimestepBatchNormalization
    max_timesteps: int
    min_sequences: int
    momentum: float | None
    recurrent_norm: TimestepBatchNormalization
    state_norm: TimestepBatchNormalization
    synchronized: bool
    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-05,
        debias: bool = True,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        synchronized: bool = False,
        min_sequences: int = 8,
        count_leading_padding: bool = False,
        normalize_carry: bool = False,
        cell_zoneout: float = 0.0,
        candidate_dropout: float = 0.0,
        projection_units: int | None = None,
        peepholes: bool = False,
        cell_clip: float | None = None,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormSimpleRNNCell(NormSimpleRNNCell):
    """Compute one step of a SimpleRNN with recurrent BatchNorm inside.

    ::

        h = tanh(BN_t(W x_t) + BN_t(U h) + b)

    BN_t uses the batch statistics of timestep t in training, and the moving statistics of timestep
    t at inference. Every BN_t has its own statistics and gamma. All timesteps share gamma, which is
    initialized to 0.1. Only the norm of c, in an LSTM, has a beta.

    Timestep 0 of a sequence is its first unmasked timestep, in the order of the loop. So padding
    on either side changes no output, also with `go_backwards=True` and in `Bidirectional`. Later
    masked timesteps count.

    The statistics of few sequences are noise. So in training, a timestep that fewer than
    `min_sequences` sequences of a padded batch reach has the statistics of the last timestep that
    enough reach. Give batches of 32 or more, with a mask. With sequences of one length this is the
    equation of the paper.

    Every call counts timesteps from 0. If you cut a sequence into pieces with `stateful=True` or
    `initial_state`, every piece uses the statistics of the first timesteps.
    The moving statistics lag behind the weights: call `keras_norm.recalibrate` before you export.

    Args:
        units: size of h.
        max_timesteps: number of timesteps with their own statistics. Later timesteps share the
            statistics of the last one.
        momentum: weight of earlier batches in the moving statistics; None averages all batches.
        epsilon: number that the norms add to the variance.
        debias: whether to correct the moving statistics for their initial values 0 and 1.
        min_sequences: number of unmasked sequences that is enough for the statistics of a timestep.
            2 uses the statistics of every timestep. Padded batches then train worse.
        count_leading_padding: whether timesteps before the first unmasked timestep count too. The
            default of `from_config` is True, so that files of earlier revisions give their old
            outputs.
        synchronized: whether the replicas of a distributed step normalize with the statistics of
            the global batch. The moving statistics are those of the global batch with both values.
            TensorFlow does not support it, and JAX always does it.
        norm_form: "separate", as above, or one norm of the sum, h = tanh(norm(W x_t + U h) + b):
            `candidate_norm` with "joint", `joint_norm` with "joint_all".
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.SimpleRNNCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.SimpleRNNCell`. With a per-sample norm, the bias is by
            default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h, (batch, units). With statistics per timestep, a timestep counter follows, as for
            `NormLSTMCell`.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, then the weights of each slot.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> keras.layers.RNN(BatchNormSimpleRNNCell(8, max_timesteps=5))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6-8
        (an LSTM).
    """

    count_leading_padding: bool
    debias: bool
    epsilon: float
    kernel_norm: TimestepBatchNormalization
    max_timesteps: int
    min_sequences: int
    momentum: float | None
    recurrent_norm: TimestepBatchNormalization
    synchronized: bool
    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-05,
        debias: bool = True,
        activation: Serializable = "tanh",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        synchronized: bool = False,
        min_sequences: int = 8,
        count_leading_padding: bool = False,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormGRUCell(NormGRUCell):
    """Compute one step of a GRU with LayerNorm inside.

    ::

        z, r = s(LN((W x_t)_zr) + LN((U h)_zr) + b_zr)
        n = tanh(LN((W x_t)_h) + r * LN((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    s is the sigmoid. The norms of the gates z and r are over 2 * units together. The reset gate
    acts after the norm, and there is one bias.

    Every LayerNorm (LN) has its own gamma and beta.

    Args:
        units: size of h.
        epsilon: number that the norms add to the variance.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms z, r, a are
            norm(W x_t + U h) + b, and n = tanh(s(r) * a). "joint" has a norm for each gate, over
            units: `update_norm`, `reset_norm` and `candidate_norm`. "joint_all" has one norm over
            all 3 * units together, `joint_norm`, as the GRU of DreamerV2 (Hafner et al. 2021). Pass
            "joint_all" if the size of x carries information, because the norm of W x_t removes it.
        unit_update_bias: whether the initial bias of z is 1, as `unit_forget_bias` of an LSTM. The
            state then changes slowly at the start of training. Dreamer's update gate is 1 - z, with
            a bias of -1.
        candidate_dropout: probability p of dropout of the candidate. In training n is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.GRUCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.GRUCell`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h, (batch, units). With statistics per timestep, a timestep counter follows, as for
            `NormLSTMCell`.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, then the weights of each slot.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> keras.layers.RNN(LayerNormGRUCell(8))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, supplement. As
        in Keras, z and 1 - z are swapped.
    """

    epsilon: float
    kernel_candidate_norm: LayerNormalization
    kernel_norm: LayerNormalization
    recurrent_candidate_norm: LayerNormalization
    recurrent_norm: LayerNormalization
    def __init__(
        self,
        units: int,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        epsilon: float = 1e-05,
        unit_update_bias: bool = False,
        candidate_dropout: float = 0.0,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormLSTMCell(NormLSTMCell):
    """Compute one step of an LSTM with LayerNorm inside.

    ::

        i, f, g, o = LN(W x_t) + LN(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(LN(c))

    s is the sigmoid. The norms of W x_t and of U h are over all 4 * units together. The next step
    receives c, not LN(c).

    Every LayerNorm (LN) has its own gamma and beta.

    Args:
        units: size of h and c.
        epsilon: number that the norms add to the variance.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms i, f, g, o are
            norm(W x_t + U h) + b, and c has no norm. "joint" has a norm for each gate, over units:
            `input_norm`, `forget_norm`, `cell_norm` and `output_norm`. "joint_all" has one norm
            over all 4 * units together, `joint_norm`. Pass "joint" if the size of x, such as an
            amplitude, carries information, because the norm of W x_t removes it.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        cell_zoneout: the same probability for c.
        candidate_dropout: probability p of dropout of the candidate. In training tanh(g) is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        projection_units: None, or the size of h = projection_norm(P (s(o) * tanh(state_norm(c)))).
            P is a matrix, and `projection_norm` a further slot of the separate form (Sak et al.
            2014, arXiv 1402.1128). c has the size `units`.
        peepholes: whether the gates read c. i and f then have the further terms p_i * c and p_f * c
            with the c before the step, and o the term p_o * c with the new c (Gers et al. 2002,
            "Learning Precise Timing with LSTM Recurrent Networks"). p_i, p_f and p_o (units,) are
            zeros before training.
        cell_clip: None, or the bound of c: c becomes min(max(c, -`cell_clip`), `cell_clip`) before
            `state_norm` and o read it, as in TensorFlow's `BlockLSTM`.
        normalize_carry: whether the next step receives state_norm(c), as in the cell of TensorFlow
            Addons, in place of c, as in the paper.
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.LSTMCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.LSTMCell`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h and c, each (batch, units). With statistics per timestep, a timestep counter
            (batch, 2) follows, which is zero before the first step. keras.layers.RNN calls a cell
            twice at the first timestep, so these statistics are updated twice there. It also hides
            the mask from the cell. Prefer `NormLSTM`, which has neither problem.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, the peepholes of i, f and o, the
        projection_kernel, then the weights of each slot.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> keras.layers.RNN(LayerNormLSTMCell(8))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20-22.
    """

    epsilon: float
    kernel_norm: LayerNormalization
    recurrent_norm: LayerNormalization
    state_norm: LayerNormalization
    def __init__(
        self,
        units: int,
        activation: Serializable = "tanh",
        recurrent_activation: Serializable = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        epsilon: float = 1e-05,
        normalize_carry: bool = False,
        cell_zoneout: float = 0.0,
        candidate_dropout: float = 0.0,
        projection_units: int | None = None,
        peepholes: bool = False,
        cell_clip: float | None = None,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormSimpleRNNCell(NormSimpleRNNCell):
    """Compute one step of a SimpleRNN with LayerNorm inside.

    ::

        h = tanh(LN(W x_t) + LN(U h) + b)

    Every LayerNorm (LN) has its own gamma and beta.

    Args:
        units: size of h.
        epsilon: number that the norms add to the variance.
        norm_form: "separate", as above, or one norm of the sum, h = tanh(norm(W x_t + U h) + b):
            `candidate_norm` with "joint", `joint_norm` with "joint_all".
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.SimpleRNNCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.SimpleRNNCell`. With a per-sample norm, the bias is by
            default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h, (batch, units). With statistics per timestep, a timestep counter follows, as for
            `NormLSTMCell`.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, then the weights of each slot.

    Raises:
        TypeError: an argument is unknown, missing or repeated.
        ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU.

    Example:
        >>> keras.layers.RNN(LayerNormSimpleRNNCell(8))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20, without the
        gates. Eq. 4, in section 3.1, is the joint form.
    """

    epsilon: float
    kernel_norm: LayerNormalization
    recurrent_norm: LayerNormalization
    def __init__(
        self,
        units: int,
        activation: Serializable = "tanh",
        use_bias: bool = True,
        kernel_initializer: Serializable = "glorot_uniform",
        recurrent_initializer: Serializable = "orthogonal",
        bias_initializer: Serializable = None,
        kernel_regularizer: Serializable = None,
        recurrent_regularizer: Serializable = None,
        bias_regularizer: Serializable = None,
        kernel_constraint: Serializable = None,
        recurrent_constraint: Serializable = None,
        bias_constraint: Serializable = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        *,
        epsilon: float = 1e-05,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...
