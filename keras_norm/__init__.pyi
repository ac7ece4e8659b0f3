# Written by `python -m tests.stubs` (make stubs) from the signatures that Python shows.

from collections.abc import Sequence
from typing import Any

import keras

from keras_norm import compat as compat
from keras_norm import export as export
from keras_norm.recalibrate import recalibrate as recalibrate
from keras_norm.version import __version__ as __version__

class RMSNormalization(keras.layers.Layer):
    axis: int | Sequence[int]
    epsilon: float
    scale: Any
    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 1e-06,
        *,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class NormGRU(keras.layers.RNN):
    activation: Any
    bias_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    compiled: bool | str
    dropout: float
    kernel_constraint: Any
    kernel_initializer: Any
    kernel_regularizer: Any
    norm: Any
    recurrent_activation: Any
    recurrent_constraint: Any
    recurrent_dropout: float
    recurrent_initializer: Any
    recurrent_regularizer: Any
    reset_after: bool
    seed: Any
    units: int
    use_bias: bool
    def __init__(
        self,
        units: int,
        norm: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
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
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class NormLSTM(keras.layers.RNN):
    activation: Any
    bias_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    compiled: bool | str
    dropout: float
    kernel_constraint: Any
    kernel_initializer: Any
    kernel_regularizer: Any
    norm: Any
    norm_form: str
    normalize_carry: bool
    recurrent_activation: Any
    recurrent_constraint: Any
    recurrent_dropout: float
    recurrent_initializer: Any
    recurrent_regularizer: Any
    seed: Any
    unit_forget_bias: bool
    units: int
    use_bias: bool
    def __init__(
        self,
        units: int,
        norm: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
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
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class NormSimpleRNN(keras.layers.RNN):
    activation: Any
    bias_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    compiled: bool | str
    dropout: float
    kernel_constraint: Any
    kernel_initializer: Any
    kernel_regularizer: Any
    norm: Any
    recurrent_constraint: Any
    recurrent_dropout: float
    recurrent_initializer: Any
    recurrent_regularizer: Any
    seed: Any
    units: int
    use_bias: bool
    def __init__(
        self,
        units: int,
        norm: Any = None,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: Any = None,
        *,
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class BatchNormalization(keras.layers.Layer):
    axis: int
    beta: Any
    beta_constraint: Any
    beta_initializer: Any
    beta_regularizer: Any
    center: bool
    debias: bool
    epsilon: float
    gamma: Any
    gamma_constraint: Any
    gamma_initializer: Any
    gamma_regularizer: Any
    momentum: float | None
    moving_mean: Any
    moving_mean_initializer: Any
    moving_variance: Any
    moving_variance_initializer: Any
    renorm: bool
    renorm_clipping: dict[str, float] | None
    renorm_momentum: float
    scale: bool
    synchronized: bool
    unbiased_variance: bool
    update_count: Any
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
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class LayerNormalization(keras.layers.Layer):
    axis: int | Sequence[int]
    beta: Any
    beta_constraint: Any
    beta_initializer: Any
    beta_regularizer: Any
    center: bool
    ddof: int
    epsilon: float
    epsilon_placement: str
    gamma: Any
    gamma_constraint: Any
    gamma_initializer: Any
    gamma_regularizer: Any
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
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class TimestepBatchNormalization(keras.layers.Layer):
    beta: Any
    beta_constraint: Any
    beta_initializer: Any
    beta_regularizer: Any
    center: bool
    debias: bool
    epsilon: float
    gamma: Any
    gamma_constraint: Any
    gamma_initializer: Any
    gamma_regularizer: Any
    max_timesteps: int
    momentum: float | None
    moving_mean: Any
    moving_mean_initializer: Any
    moving_variance: Any
    moving_variance_initializer: Any
    scale: bool
    unbiased_variance: bool
    update_count: Any
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
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class VarianceNormalization(keras.layers.Layer):
    axis: int | Sequence[int]
    beta: Any
    beta_constraint: Any
    beta_initializer: Any
    beta_regularizer: Any
    center: bool
    epsilon: float
    gamma: Any
    gamma_constraint: Any
    gamma_initializer: Any
    gamma_regularizer: Any
    scale: bool
    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 0.001,
        center: bool = False,
        scale: bool = False,
        *,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
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
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
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
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
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
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
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
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
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
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: Any = None,
        *,
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class LayerNormGRU(NormGRU):
    epsilon: float
    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
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
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class LayerNormLSTM(NormLSTM):
    epsilon: float
    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
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
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class LayerNormSimpleRNN(NormSimpleRNN):
    epsilon: float
    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: Any = None,
        *,
        epsilon: float = 1e-05,
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        zero_output_for_mask: bool = False,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class NormGRUCell(keras.layers.GRUCell):
    norm: Any
    def __init__(
        self,
        units: int,
        norm: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: Any = None,
        *,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class NormLSTMCell(keras.layers.LSTMCell):
    norm: Any
    norm_form: str
    normalize_carry: bool
    def __init__(
        self,
        units: int,
        norm: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
        *,
        norm_form: str = "separate",
        normalize_carry: bool = False,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class NormSimpleRNNCell(keras.layers.SimpleRNNCell):
    norm: Any
    def __init__(
        self,
        units: int,
        norm: Any = None,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
        *,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class BatchNormGRUCell(NormGRUCell):
    debias: bool
    epsilon: float
    kernel_candidate_norm: Any
    kernel_norm: Any
    max_timesteps: int
    momentum: float | None
    recurrent_candidate_norm: Any
    recurrent_norm: Any
    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-05,
        debias: bool = True,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: Any = None,
        *,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class BatchNormLSTMCell(NormLSTMCell):
    debias: bool
    epsilon: float
    kernel_norm: Any
    max_timesteps: int
    momentum: float | None
    recurrent_norm: Any
    state_norm: Any
    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-05,
        debias: bool = True,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
        *,
        norm_form: str = "separate",
        normalize_carry: bool = False,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class BatchNormSimpleRNNCell(NormSimpleRNNCell):
    debias: bool
    epsilon: float
    kernel_norm: Any
    max_timesteps: int
    momentum: float | None
    recurrent_norm: Any
    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-05,
        debias: bool = True,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
        *,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class LayerNormGRUCell(NormGRUCell):
    epsilon: float
    kernel_candidate_norm: Any
    kernel_norm: Any
    recurrent_candidate_norm: Any
    recurrent_norm: Any
    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: Any = None,
        *,
        epsilon: float = 1e-05,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class LayerNormLSTMCell(NormLSTMCell):
    epsilon: float
    kernel_norm: Any
    recurrent_norm: Any
    state_norm: Any
    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
        *,
        epsilon: float = 1e-05,
        norm_form: str = "separate",
        normalize_carry: bool = False,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...

class LayerNormSimpleRNNCell(NormSimpleRNNCell):
    epsilon: float
    kernel_norm: Any
    recurrent_norm: Any
    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
        *,
        epsilon: float = 1e-05,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: Any = None,
    ) -> None: ...
