"""What every normalized recurrent layer shares."""

from typing import Any

import keras
from keras import ops

from keras_norm.rnn.cell import with_norm
from keras_norm.rnn.plain import plain_form

# Arguments of keras.layers.RNN and keras.layers.Layer; every other one belongs to the cell.
LAYER_ARGUMENTS = frozenset(
    [
        "return_sequences",
        "return_state",
        "go_backwards",
        "stateful",
        "unroll",
        "zero_output_for_mask",
        "activity_regularizer",
        "autocast",
        "batch_shape",
        "dtype",
        "input_dim",
        "input_shape",
        "name",
        "trainable",
    ]
)


class NormRNN(keras.layers.RNN):
    """Base of the layers that run a normalized cell over sequences.

    keras.layers.RNN brings initial, final and kept states and their checks; the loop is our own.

    Args:
        units: size of the state and of the output.
        *args: further positional arguments of the cell.
        **kwargs: arguments of the cell, and `return_sequences`, `return_state`, `go_backwards`,
            `stateful`, `unroll`, `zero_output_for_mask`, `activity_regularizer`, `name`, `dtype`,
            `trainable` as in Keras.
    """

    cell_class: type[Any]

    def __init__(self, units: int, *args: Any, **kwargs: Any) -> None:
        if kwargs.pop("use_cudnn", "auto") is True:
            raise ValueError(
                "use_cudnn=True: cuDNN has no recurrence with normalization inside. Leave it out."
            )
        own = {key: kwargs.pop(key) for key in LAYER_ARGUMENTS & set(kwargs)}
        shared = {key: own[key] for key in ("dtype", "trainable") if key in own}
        super().__init__(self.cell_class(units, *args, **shared, **kwargs), **own)
        # The counter of a cell that counts timesteps is no state of the layer's.
        self.state_size = self.cell.real_state_sizes
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def __getattr__(self, name: str) -> Any:
        """The cell's arguments read as the layer's own, as those of Keras' layers do."""
        cell = self.__dict__.get("cell")
        if cell is not None and not name.startswith("_") and name in cell.get_config():
            return getattr(cell, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_initial_state(self, batch_size: Any) -> list[Any]:
        """Zeros for every state."""
        sizes = self.cell.real_state_sizes
        return [ops.zeros((batch_size, size), dtype=self.cell.compute_dtype) for size in sizes]

    def inner_loop(
        self, sequences: Any, initial_state: list[Any], mask: Any, training: bool = False
    ) -> tuple[Any, Any, list[Any]]:
        """Run the loop for `keras.layers.RNN.call`, which has prepared the states.

        Returns:
            The last output, all outputs (the last one alone without `return_sequences`), and the
            final states.
        """
        mask = mask[0] if isinstance(mask, list | tuple) else mask
        mask = None if mask is None else ops.cast(mask, "bool")
        if self.go_backwards:
            sequences = ops.flip(sequences, axis=1)
            mask = None if mask is None else ops.flip(mask, axis=1)
        result = plain_form(
            self.cell,
            sequences,
            initial_state,
            mask,
            training,
            return_sequences=self.return_sequences,
            zero_output_for_mask=self.zero_output_for_mask,
            unroll=self.unroll,
        )
        if self.return_sequences:
            outputs = ops.swapaxes(result.outputs, 0, 1)
        else:
            outputs = result.last_output[:, None]
        return result.last_output, outputs, result.states

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument, the cell's among them."""
        config = super().get_config()
        del config["cell"]
        return {
            **self.cell.get_config(),
            **config,
            "activity_regularizer": keras.regularizers.serialize(self.activity_regularizer),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The layer that `get_config` describes."""
        return cls(**with_norm(config))
