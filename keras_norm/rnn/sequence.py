"""What every normalized recurrent layer shares."""

from typing import Any, ClassVar

import keras
from keras import ops

from keras_norm.layers.inputs import with_features
from keras_norm.ops.scan import loops_are_exported
from keras_norm.rnn import loop

UNCOVERED = (
    "compiled=True covers tanh and sigmoid with LayerNormalization (its ddof and epsilon_placement "
    "as they are), RMSNormalization, TimestepBatchNormalization or no norm in the slots, epsilons "
    "of rows above 0, without "
    "unroll, norm_form='joint', normalize_carry, reset_after=False and tf.debugging's checks. {} "
    "'{}' is none of these: leave compiled at 'auto'."
)


class NormRNN(keras.layers.RNN):
    """Base of the layers that run a normalized cell over sequences.

    keras.layers.RNN brings initial, final and kept states and their checks; the loop is our own.

    Args:
        cell: a `NormCell`.
        compiled: whether XLA compiles the recurrence, with a gradient by hand (TensorFlow). "auto":
            in training, where the cell is covered. True: at inference too, and a cell that is not
            covered is refused. False: never. What `keras_norm.export` writes never is compiled.
        use_cudnn: "auto" or False, which are the same: no layer of this package runs on cuDNN.
        **kwargs: arguments of `keras.layers.RNN`, and `name`, `dtype`, `trainable`.
    """

    HIDDEN: ClassVar = ("cell",)

    def __init__(
        self,
        cell: Any,
        *,
        compiled: bool | str = "auto",
        use_cudnn: bool | str = "auto",
        **kwargs: Any,
    ) -> None:
        if use_cudnn not in ("auto", False):
            raise ValueError(
                "No recurrent layer of keras_norm runs on cuDNN, with a norm or without. "
                f"Received: use_cudnn={use_cudnn!r}. Leave it at 'auto', or take keras.layers.LSTM "
                "or keras.layers.GRU, which have no norm inside."
            )
        if compiled not in ("auto", True, False):
            raise ValueError(
                f"compiled must be 'auto', True or False. Received: compiled={compiled!r}."
            )
        if compiled is True and keras.backend.backend() != "tensorflow":
            raise ValueError(
                "compiled=True needs the TensorFlow backend; the others compile for themselves. "
                f"Received the {keras.backend.backend()} backend: leave compiled at 'auto'."
            )
        super().__init__(cell, **kwargs)
        self.supports_masking = True  # keras.layers.RNN sets it to False from Keras 3.16 on
        self.compiled = compiled
        # The counter of a cell that counts timesteps is no state of the layer's.
        self.state_size = self.cell.real_state_sizes
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Build a layer of a saved or copied model; see `NormCell.build_from_config`."""
        self.cell.is_loaded = True
        super().build_from_config(config)

    def get_initial_state(self, batch_size: Any) -> list[Any]:
        """Zeros for every state."""
        return self.cell.get_initial_state(batch_size)[: len(self.state_size)]

    def inner_loop(
        self, sequences: Any, initial_state: list[Any], mask: Any, training: bool = False
    ) -> tuple[Any, Any, list[Any]]:
        """Run the cell over time, for `keras.layers.RNN.call`, which has prepared the states.

        Returns:
            The last output; all outputs, or the last one alone without `return_sequences`; and the
            last states.
        """
        if len(initial_state) != len(self.state_size):
            raise ValueError(
                f"{type(self).__name__} has {len(self.state_size)} states. "
                f"Received {len(initial_state)} in initial_state."
            )
        _require_real(sequences)
        sequences, _ = with_features(sequences, -1, self.cell.kernel.shape[:1])
        mask = _time_mask(mask, sequences)
        sizes = zip(initial_state, self.state_size, strict=True)
        initial_state = [_state_of(sequences, state, units) for state, units in sizes]
        if self.go_backwards:
            sequences = ops.flip(sequences, axis=1)
            mask = None if mask is None else ops.flip(mask, axis=1)
        if mask is not None and not loops_are_exported():
            # Of a NaN that the mask hides the gradient of the kernel would be NaN: 0 * NaN.
            sequences = ops.where(ops.expand_dims(mask, -1), sequences, ops.zeros_like(sequences))
        path, states, learned = self._run(sequences, initial_state, mask, training)
        for slot, batch in learned.items():
            self.cell.slot_layers()[slot].update_steps(*batch)
        states = [ops.cast(state, self.compute_dtype) for state in states]
        last = states[0]
        if mask is not None:
            # The output of a masked step is the one before it, zeros at first: that is h, but where
            # nothing was alive yet and h is the initial state.
            # (TFLite slices no bool.)
            alive = ops.cast(mask, "int32")
            alive = alive if self.zero_output_for_mask else ops.cumsum(alive, axis=1)
            last = ops.where(alive[:, -1:] > 0, last, ops.zeros_like(last))
        if path is None:
            return last, last[:, None], states
        path = ops.cast(path, self.compute_dtype)
        if mask is not None:
            path = ops.where(ops.expand_dims(alive > 0, -1), path, ops.zeros_like(path))
        return last, path, states

    def get_config(self) -> dict[str, Any]:
        """The configuration of keras.layers.RNN, and `compiled`."""
        return {**super().get_config(), "compiled": self.compiled}

    def _run(self, sequences: Any, states: list[Any], mask: Any, training: bool) -> Any:
        """The recurrence by the gradient by hand, where that is wanted and can be, or by the loop.

        Returns:
            As `loop.run`.
        """
        dropout_masks = self.cell.dropout_masks(sequences[:, 0, :], states[0], training)
        arguments = (sequences, states, mask, training, dropout_masks)
        wanted = self.compiled if self.compiled != "auto" else training
        if wanted and keras.backend.backend() == "tensorflow" and not loops_are_exported():
            from keras_norm.rnn.gradient import of_cell

            spec = of_cell.spec_of(self.cell, sequences, mask, training, dropout_masks)
            if spec is not None and not self.unroll:
                returned = self.return_sequences
                return of_cell.run(self.cell, spec, *arguments, return_sequences=returned)
            if self.compiled is True:
                raise ValueError(UNCOVERED.format(type(self).__name__, self.name))
        options = {"return_sequences": self.return_sequences, "unroll": self.unroll}
        return loop.run(self.cell, *arguments, **options)

    def _maybe_config_dropout_masks(self, *_: Any) -> None:
        """Draw no masks: `_run` does, in training.

        keras.layers.RNN draws them at inference too, so that a served model would write to the
        variable that holds their seed.
        """


def _require_real(sequences: Any) -> None:
    """Refuse complex sequences, whose imaginary part a cast would drop without a word.

    Raises:
        TypeError: they are complex.
    """
    dtype = keras.backend.standardize_dtype(sequences.dtype)
    if dtype.startswith("complex"):
        raise TypeError(
            f"A recurrent layer takes real numbers. Received {dtype}: give the real and the "
            "imaginary part as features side by side."
        )


def _state_of(sequences: Any, state: Any, units: int) -> Any:
    """An initial state as (batch, units); one row starts every sequence.

    Raises:
        ValueError: it has another shape.
    """
    batch = sequences.shape[0]
    if len(state.shape) != 2 or not _fits(state.shape, (batch, units)):
        raise ValueError(
            f"An initial state is (batch, units), or (1, units) for all sequences, here "
            f"({batch}, {units}). Received shape {tuple(state.shape)}."
        )
    return _broadcast(state, (ops.shape(sequences)[0], units))


def _time_mask(mask: Any, sequences: Any) -> Any:
    """The mask as bool (batch, time), or None; one row is that of every sequence.

    Raises:
        ValueError: it has another shape, and is not (batch, time, 1) either.
    """
    mask = mask[0] if isinstance(mask, list | tuple) else mask
    if mask is None:
        return None
    mask = ops.convert_to_tensor(mask)
    if len(mask.shape) == 3 and mask.shape[2] in (1, None):
        mask = ops.reshape(mask, ops.shape(mask)[:2])
    if len(mask.shape) != 2 or not _fits(mask.shape, sequences.shape[:2]):
        raise ValueError(
            "The mask of a recurrent layer is (batch, time), True where a timestep counts. "
            f"Received shape {tuple(mask.shape)} for sequences of shape {tuple(sequences.shape)}."
        )
    return _broadcast(ops.cast(mask, "bool"), ops.shape(sequences)[:2])


def _fits(shape: Any, wanted: Any) -> bool:
    """Whether a tensor of a shape may have the wanted one, or one row of it."""
    (rows, size), (batch, wanted_size) = shape, wanted
    same_size = None in (size, wanted_size) or size == wanted_size
    return same_size and (None in (rows, batch) or rows in (1, batch))


def _broadcast(x: Any, sizes: tuple[Any, ...]) -> Any:
    """X in these sizes, which are checked when it runs where the graph does not know them.

    What has fewer rows would be filled up elsewhere, as a smaller batch is. In a file the sizes are
    the caller's, but for one row.
    """
    known = all(isinstance(size, int) for size in sizes)
    if (known and tuple(x.shape) == tuple(sizes)) or (loops_are_exported() and x.shape[0] != 1):
        return x
    return ops.broadcast_to(x, sizes)
