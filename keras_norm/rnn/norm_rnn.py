"""Base class of the normalized recurrent layers."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from keras_norm.keras_internals import release_gradients
from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.layers.inputs import with_features
from keras_norm.layers.rematerialization import run_once
from keras_norm.ops.resets import count_unmasked, reverse_resets
from keras_norm.rnn import compiled as compiled_recurrence
from keras_norm.rnn import loop
from keras_norm.rnn.call_arguments import (
    MaskWithResets,
    broadcast_rows,
    convert_mask,
    convert_resets,
    join_resets,
    require_real,
    require_state_shape,
)
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.sequence_inputs import Results
from keras_norm.rnn.slot_statistics import (
    require_no_timestep_statistics,
    require_synchronizable,
    update_slots,
)
from keras_norm.typing import Config, Nest, Tensor, TensorLike, Tensors

UNSUPPORTED = (
    "compiled=True does not support {layer_class} '{layer_name}'. Leave compiled at 'auto', or "
    "change these options: compiled=True needs the activations tanh and sigmoid, and norms of the "
    "classes LayerNormalization and RMSNormalization (with an epsilon above 0) or "
    "TimestepBatchNormalization, or of a class that defines step_norm. A cell class of your own "
    "must define backward_step. Do not set unroll=True, normalize_carry=True or reset_after=False. "
    "Turn off the checks of tf.debugging."
)


class NormRNN(keras.layers.RNN):
    """Run a normalized cell over sequences.

    keras.layers.RNN provides initial states, final states and `stateful`, and validates them.
    `NormRNN` replaces the loop over time.

    Args:
        cell: a `NormCell`.
        compiled: whether to run the recurrence with the custom gradient. On TensorFlow, XLA
            compiles it. "auto" uses it if it supports the cell: on TensorFlow in training, on JAX
            and PyTorch in training and inference. True uses it in training and inference, and
            raises an error for an unsupported cell. False never uses it. `keras_norm.export` never
            writes a compiled recurrence.
        use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.
        **kwargs: arguments of `keras.layers.RNN`, and `name`, `dtype`, `trainable`.
    """

    HIDDEN: ClassVar = ("cell",)

    def __init__(
        self,
        cell: NormCell,
        *,
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        **kwargs: Any,
    ) -> None:
        if use_cudnn not in ("auto", False):
            raise ValueError(
                "The recurrent layers of keras_norm do not run on cuDNN, with or without a norm. "
                f"Received: use_cudnn={use_cudnn!r}. Leave use_cudnn at 'auto', or use "
                "keras.layers.LSTM or keras.layers.GRU, which have no norm."
            )
        if compiled not in ("auto", True, False):
            raise ValueError(
                f"compiled must be 'auto', True or False. Received: compiled={compiled!r}."
            )
        if compiled is True and keras.backend.backend() not in compiled_recurrence.BACKENDS:
            raise ValueError(
                "compiled=True needs the TensorFlow, JAX or PyTorch backend. The current backend "
                f"is {keras.backend.backend()}. Leave compiled at 'auto'."
            )
        super().__init__(cell, **kwargs)
        # Set supports_masking to True: keras.layers.RNN sets it to False from Keras 3.16 on.
        self.supports_masking = True
        # Do not use torch.compile, which takes minutes for the loop over time. Without this line,
        # PyTorch would use torch.compile for a model that was compiled and saved on JAX.
        self.supports_jit = keras.backend.backend() != "torch"
        self.compiled = compiled
        # The cell's timestep counter is a state of the cell, but not a state of the layer.
        self.state_size = self.cell.recurrent_state_sizes
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def build_from_config(self, config: Config) -> None:
        """Build the layer of a loaded or copied model.

        Unlike `build`, this method does not warn of a norm of few input features: the warning was
        shown when the original model was built.
        """
        self.cell.is_restored = True
        super().build_from_config(config)

    def set_weights(self, weights: Sequence[TensorLike]) -> None:
        """Set the weights from a list of arrays in the order of the property `weights`.

        Raises:
            ValueError: the number of weights or a shape is wrong.
        """
        if 0 < len(weights) <= 3 < len(self.weights):
            raise ValueError(
                f"{type(self).__name__} '{self.name}' has {len(self.weights)} weights, with those "
                f"of its norms. Received {len(weights)} weights, as a Keras layer without norms "
                "has. To add norms to a trained Keras model, call keras_norm.convert(model)."
            )
        super().set_weights(weights)

    def get_initial_state(self, batch_size: int | Tensor) -> Tensors:
        """Return the initial states: zeros, or the weights of `learn_initial_state`."""
        states: Tensors = self.cell.get_initial_state(batch_size)
        return states[: len(self.state_size)]

    def reset_state(self) -> None:
        """Set the stored states of a stateful layer to the initial states."""
        if self.states is not None:
            initial = self.get_initial_state(self.states[0].shape[0])
            for stored, state in zip(self.states, initial, strict=True):
                stored.assign(state)

    def rematerialized_call(
        self, layer_call: Callable[..., object], *args: object, **kwargs: object
    ) -> Callable[..., object]:
        """Return the call under keras.RematScope; a layer with batch norms runs only once there."""
        call = super().rematerialized_call(layer_call, *args, **kwargs)
        norms = self.cell.slot_layers().values()
        has_statistics = any(isinstance(norm, StatisticsNormalization) for norm in norms)
        return run_once(self, layer_call, call) if has_statistics else call

    def call(
        self,
        sequences: Tensor,
        initial_state: Nest = None,
        mask: Nest = None,
        training: bool = False,
        resets: Tensor | None = None,
    ) -> Nest:
        """Run the layer; `keras.layers.RNN` documents the first four arguments.

        Before a timestep at which `resets`, bool (batch, time), is True, the states are set to
        `initial_state`, or else to those of `get_initial_state`.
        """
        if resets is not None:
            mask = join_resets(sequences, mask, resets)
        if isinstance(mask, MaskWithResets) and self.stateful and initial_state is None:
            # Only the first sequence of each row of the batch continues from the stored states.
            # Later sequences of the row start with the initial states.
            mask = mask._replace(states=self.get_initial_state(ops.shape(sequences)[0]))
        return super().call(sequences, initial_state, mask, training)

    def inner_loop(
        self,
        sequences: Tensor,
        initial_state: Tensors,
        mask: Tensor | MaskWithResets | None,
        training: bool = False,
    ) -> tuple[Tensor, Tensor, Tensors]:
        """Run the cell over time; `keras.layers.RNN.call` calls this method.

        Returns:
            The last output; the outputs at every timestep, or only the last output without
            `return_sequences`; and the last states.
        """
        if len(initial_state) != len(self.state_size):
            raise ValueError(
                f"{type(self).__name__} has {len(self.state_size)} states. Received "
                f"{len(initial_state)} initial states. Pass one tensor (batch, units) per state."
            )
        require_real(sequences)
        sequences, _ = with_features(sequences, -1, self.cell.kernel.shape[:1])
        states, resets = list(initial_state), None
        if isinstance(mask, MaskWithResets):
            batch, time, _ = ops.shape(sequences)
            resets = broadcast_rows(convert_resets(mask.resets, sequences), (batch, time))
            states += mask.states or initial_state
        mask = convert_mask(mask, sequences)
        for k, (state, size) in enumerate(zip(initial_state, self.state_size, strict=True)):
            require_state_shape(state, sequences, k, size)
        if self.go_backwards:
            sequences = ops.flip(sequences, axis=1)
            mask = None if mask is None else ops.flip(mask, axis=1)
            resets = None if resets is None else reverse_resets(resets)
        outputs, states, statistics = self.run_recurrence(sequences, states, mask, training, resets)
        update_slots(self.cell, statistics)
        states = [ops.cast(state, self.compute_dtype) for state in states]
        last = states[0]
        if mask is not None:
            # A masked timestep repeats the previous output. Before the first unmasked timestep
            # there is no previous output. There the loop returns the initial state h: replace it by
            # zeros. `has_output` has integers, because TFLite cannot slice a bool tensor.
            has_output = ops.cast(mask, "int32")
            if not self.zero_output_for_mask and resets is None:
                has_output = ops.cumsum(has_output, axis=1)
            elif not self.zero_output_for_mask:
                has_output = count_unmasked(broadcast_rows(mask, (batch, time)), resets)
            last = ops.where(has_output[:, -1:] > 0, last, ops.zeros_like(last))
        if outputs is None:
            return last, last[:, None], states
        outputs = ops.cast(outputs, self.compute_dtype)
        if mask is not None:
            has_output = ops.expand_dims(has_output > 0, -1)
            outputs = ops.where(has_output, outputs, ops.zeros_like(outputs))
        return last, outputs, states

    def get_config(self) -> Config:
        """Return the arguments of keras.layers.RNN and the argument `compiled`."""
        return {**super().get_config(), "compiled": self.compiled}

    def run_recurrence(
        self,
        sequences: Tensor,
        states: Tensors,
        mask: Tensor | None,
        training: bool,
        resets: Tensor | None = None,
    ) -> Results:
        """Run the recurrence with or without the custom gradient, as the argument `compiled` says.

        The exporters substitute this method. A dynamic number of rows is checked here, when the
        graph runs: the compiled path would pad a tensor with too few rows.

        Returns:
            The outputs at every timestep or None, the last states, and the batch statistics of each
            slot.
        """
        if keras.backend.backend() == "tensorflow":
            release_gradients()
        batch, time, _ = ops.shape(sequences)
        if training:
            require_synchronizable(self, time)
        if resets is not None and training:
            require_no_timestep_statistics(self)
        sizes = [(batch, units) for units in (*self.state_size, *self.state_size)]
        states = [broadcast_rows(*pair) for pair in zip(states, sizes, strict=False)]
        if mask is not None:
            mask = broadcast_rows(mask, (batch, time))
            # Set masked inputs to zero: a NaN would make the gradient of the kernel NaN (0 * NaN).
            sequences = ops.where(ops.expand_dims(mask, -1), sequences, ops.zeros_like(sequences))
        masks = self.cell.draw_masks(sequences, states, training)
        arguments = (self.cell, sequences, states, mask, training, masks)
        options = {"return_sequences": self.return_sequences, "resets": resets}
        compiled = self.compiled
        if compiled == "auto":
            compiled = training or keras.backend.backend() != "tensorflow"
        if compiled and keras.backend.backend() in compiled_recurrence.BACKENDS:
            recurrence = compiled_recurrence.recurrence_of(self.cell, training, masks)
            if recurrence is not None and not self.unroll:
                return compiled_recurrence.run(*arguments, recurrence=recurrence, **options)
            if self.compiled is True:
                raise ValueError(
                    UNSUPPORTED.format(layer_class=type(self).__name__, layer_name=self.name)
                )
        return loop.run(*arguments, unroll=self.unroll, **options)

    def _maybe_config_dropout_masks(self, *_: object) -> None:
        """Draw no dropout masks here; `run_recurrence` draws them in training.

        keras.layers.RNN draws masks at inference too. A served model would then write to the
        variable of the random seed.
        """
