# Written by `python -m tests.stubs` (make stubs) from the signatures that Python shows.

from collections.abc import Callable, Mapping, Sequence

import keras

from keras_norm import compat as compat
from keras_norm import export as export
from keras_norm.conversion.convert import convert as convert
from keras_norm.conversion.convert import to_keras as to_keras
from keras_norm.recalibration.recalibrate import recalibrate as recalibrate
from keras_norm.statistics_plot import plot_statistics as plot_statistics
from keras_norm.typing import Serializable, Tensor
from keras_norm.version import __version__ as __version__

class RMSNormalization(keras.layers.Layer):
    axis: int | Sequence[int]
    epsilon: float
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
    activation: Callable[..., Tensor]
    bias_constraint: keras.constraints.Constraint | None
    bias_initializer: keras.initializers.Initializer
    bias_regularizer: keras.regularizers.Regularizer | None
    compiled: bool | str
    dropout: float
    kernel_constraint: keras.constraints.Constraint | None
    kernel_initializer: keras.initializers.Initializer
    kernel_regularizer: keras.regularizers.Regularizer | None
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
    recurrent_activation: Callable[..., Tensor]
    recurrent_constraint: keras.constraints.Constraint | None
    recurrent_dropout: float
    recurrent_initializer: keras.initializers.Initializer
    recurrent_regularizer: keras.regularizers.Regularizer | None
    reset_after: bool
    seed: int | keras.random.SeedGenerator | None
    units: int
    use_bias: bool
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
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormLSTM(keras.layers.RNN):
    activation: Callable[..., Tensor]
    bias_constraint: keras.constraints.Constraint | None
    bias_initializer: keras.initializers.Initializer
    bias_regularizer: keras.regularizers.Regularizer | None
    compiled: bool | str
    dropout: float
    kernel_constraint: keras.constraints.Constraint | None
    kernel_initializer: keras.initializers.Initializer
    kernel_regularizer: keras.regularizers.Regularizer | None
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
    norm_form: str
    normalize_carry: bool
    recurrent_activation: Callable[..., Tensor]
    recurrent_constraint: keras.constraints.Constraint | None
    recurrent_dropout: float
    recurrent_initializer: keras.initializers.Initializer
    recurrent_regularizer: keras.regularizers.Regularizer | None
    seed: int | keras.random.SeedGenerator | None
    unit_forget_bias: bool
    units: int
    use_bias: bool
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
        norm_form: str = "separate",
        normalize_carry: bool = False,
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormSimpleRNN(keras.layers.RNN):
    activation: Callable[..., Tensor]
    bias_constraint: keras.constraints.Constraint | None
    bias_initializer: keras.initializers.Initializer
    bias_regularizer: keras.regularizers.Regularizer | None
    compiled: bool | str
    dropout: float
    kernel_constraint: keras.constraints.Constraint | None
    kernel_initializer: keras.initializers.Initializer
    kernel_regularizer: keras.regularizers.Regularizer | None
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
    recurrent_constraint: keras.constraints.Constraint | None
    recurrent_dropout: float
    recurrent_initializer: keras.initializers.Initializer
    recurrent_regularizer: keras.regularizers.Regularizer | None
    seed: int | keras.random.SeedGenerator | None
    units: int
    use_bias: bool
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
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormalization(keras.layers.Layer):
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
    max_timesteps: int
    momentum: float | None
    moving_mean: keras.Variable
    moving_mean_initializer: keras.initializers.Initializer
    moving_variance: keras.Variable
    moving_variance_initializer: keras.initializers.Initializer
    scale: bool
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

class VarianceNormalization(keras.layers.Layer):
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
    debias: bool
    epsilon: float
    max_timesteps: int
    momentum: float | None
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
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormLSTM(NormLSTM):
    debias: bool
    epsilon: float
    max_timesteps: int
    momentum: float | None
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
        norm_form: str = "separate",
        normalize_carry: bool = False,
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormSimpleRNN(NormSimpleRNN):
    debias: bool
    epsilon: float
    max_timesteps: int
    momentum: float | None
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
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormGRU(NormGRU):
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
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormLSTM(NormLSTM):
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
        norm_form: str = "separate",
        normalize_carry: bool = False,
        compiled: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormSimpleRNN(NormSimpleRNN):
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
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormGRUCell(keras.layers.GRUCell):
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
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
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormLSTMCell(keras.layers.LSTMCell):
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
    norm_form: str
    normalize_carry: bool
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
        norm_form: str = "separate",
        normalize_carry: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class NormSimpleRNNCell(keras.layers.SimpleRNNCell):
    norm: keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None
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
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormGRUCell(NormGRUCell):
    debias: bool
    epsilon: float
    kernel_candidate_norm: TimestepBatchNormalization
    kernel_norm: TimestepBatchNormalization
    max_timesteps: int
    momentum: float | None
    recurrent_candidate_norm: TimestepBatchNormalization
    recurrent_norm: TimestepBatchNormalization
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
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormLSTMCell(NormLSTMCell):
    debias: bool
    epsilon: float
    kernel_norm: TimestepBatchNormalization
    max_timesteps: int
    momentum: float | None
    recurrent_norm: TimestepBatchNormalization
    state_norm: TimestepBatchNormalization
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
        norm_form: str = "separate",
        normalize_carry: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class BatchNormSimpleRNNCell(NormSimpleRNNCell):
    debias: bool
    epsilon: float
    kernel_norm: TimestepBatchNormalization
    max_timesteps: int
    momentum: float | None
    recurrent_norm: TimestepBatchNormalization
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
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormGRUCell(NormGRUCell):
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
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormLSTMCell(NormLSTMCell):
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
        norm_form: str = "separate",
        normalize_carry: bool = False,
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...

class LayerNormSimpleRNNCell(NormSimpleRNNCell):
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
        activity_regularizer: Serializable = None,
        trainable: bool = True,
        dtype: str | keras.DTypePolicy | None = None,
        autocast: bool = True,
        name: str | None = None,
    ) -> None: ...
