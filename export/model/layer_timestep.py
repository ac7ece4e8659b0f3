"""Run the recurrent layers of a model for one timestep, from given states."""

from collections.abc import Iterable, Mapping

import keras
from keras import ops
from keras.backend import standardize_dtype

from keras_norm.export import signature
from keras_norm.export.compare.arrays import to_numpy
from keras_norm.export.errors import StreamingError, one_line
from keras_norm.export.input_names import TensorSpec
from keras_norm.export.model.layer_replacement import (
    at_inference,
    has_keras_loop,
    replacement_layer,
    where_unmasked,
)
from keras_norm.named_layers import named_layers
from keras_norm.rnn import loop
from keras_norm.rnn.call_arguments import MaskWithResets
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.norm_rnn import NormRNN
from keras_norm.rnn.timestep_counter import advance_counter, read_counter
from keras_norm.substitution import Function
from keras_norm.typing import Nest, Tensor

# Names of the states of Keras' cells, by class. The cells of keras_norm are subclasses of these
# classes, so their states get these names too.
STATE_NAMES = {
    keras.layers.LSTMCell: ["h", "c"],
    keras.layers.GRUCell: ["h"],
    keras.layers.SimpleRNNCell: ["h"],
}


class LayerTimestep:
    """Run a recurrent layer for one timestep.

    Args:
        name: unique name of the layer.
        layer: the recurrent layer.
        taken: names that its states must not have.

    Raises:
        StreamingError: the layer cannot run timestep by timestep.

    Attributes:
        name: unique name of the layer.
        layer: the layer.
        states: the states by unique name, each (batch, size).
        hidden_states: names of the states that the cell multiplies with a kernel: "h" of a known
            cell, and all states of any other cell.
    """

    def __init__(self, name: str, layer: keras.layers.RNN, taken: Iterable[str] = ()) -> None:
        self.name, self.layer = name, layer
        if not has_keras_loop(layer):
            raise StreamingError(
                f'layer "{name}" ({type(layer).__name__}) overrides `inner_loop`, so it cannot run '
                "timestep by timestep. Use a layer of Keras or of keras_norm"
            )
        self._zeros = self._initial_states()
        zeros = keras.tree.flatten(self._zeros)
        own, is_known = _state_names(layer, len(zeros))
        names = signature.unique([f"{name}_{state}" for state in own], taken)
        self.states = {
            state: TensorSpec(state, (None, *x.shape[1:]), standardize_dtype(x.dtype))
            for state, x in zip(names, zeros, strict=True)
        }
        self.hidden_states = names[:1] if is_known else names
        # Create the replacement layer here: it has variables, and a graph cannot create variables.
        self._replacement = replacement_layer(layer)

    def methods(
        self, states: Mapping[str, Tensor], after: dict[str, Tensor], center_kernels: bool
    ) -> dict[str, Function]:
        """Return replacements for the layer's methods, so that the layer runs only one timestep.

        They read the states before the timestep from `states`, and write the states after it to
        `after`.
        """
        name, has_initial_state = self.name, True
        own = [ops.cast(states[state], spec.dtype) for state, spec in self.states.items()]
        before = keras.tree.pack_sequence_as(self._zeros, own)

        def get_initial_state(batch_size: int | Tensor) -> Nest:
            nonlocal has_initial_state
            has_initial_state = False
            return before

        def inner_loop(
            sequences: Tensor, initial_state: Nest, mask: Nest, training: bool = False
        ) -> tuple[Tensor, Tensor, Nest]:
            if has_initial_state:
                raise StreamingError(
                    f'layer "{name}" takes an initial_state, but a single-step model starts from '
                    "zero states. Export the part of the model that begins with this layer as a "
                    "separate model, with the states as inputs and outputs"
                )
            if sequences.shape[1] != 1:
                raise StreamingError(
                    f'layer "{name}" runs over an axis that is not the time axis of the inputs, so '
                    "it cannot run timestep by timestep"
                )
            if self.states.keys() & after.keys():
                raise StreamingError(
                    f'layer "{name}" is called twice, so two calls would share its states'
                )
            old = before
            if isinstance(mask, MaskWithResets):
                resets, mask = ops.cast(mask.resets, "bool"), mask.mask
                # The states before the first timestep are zeros: see `_initial_states`.
                old = [where_unmasked(resets, ops.zeros_like(state), state) for state in before]
            output, states = self._run_cell(sequences, old, center_kernels)
            if mask is not None:
                output, states = self._apply_mask(mask, output, states, old)
            after.update(zip(self.states, keras.tree.flatten(states), strict=True))
            return output, ops.expand_dims(output, 1), states

        return {
            "get_initial_state": get_initial_state,
            "inner_loop": inner_loop,
            "_maybe_config_dropout_masks": lambda *_: None,
        }

    def _initial_states(self) -> Nest:
        """Return the states before the first timestep; raise StreamingError if they are not zeros.

        The states of a keras_norm cell include its counter of timesteps.
        """
        layer = self.layer
        try:
            states = (layer.cell if isinstance(layer, NormRNN) else layer).get_initial_state(1)
        # The cell's code may be a user's, so it may raise any error.
        except Exception as error:
            raise StreamingError(
                f'layer "{self.name}" cannot create its states before the first timestep: '
                f"{one_line(error)}"
            ) from error
        if any(to_numpy(state).any() for state in keras.tree.flatten(states)):
            raise StreamingError(
                f'layer "{self.name}" has initial states other than zeros, but a single-step model '
                "starts from zero states"
            )
        return states

    def _run_cell(
        self, sequences: Tensor, before: Nest, center_kernels: bool
    ) -> tuple[Tensor, Nest]:
        """Run the layer's cell on the only timestep of `sequences`, (batch, 1, features)."""
        replacement = self._replacement
        if replacement is None or _counts_timesteps(replacement):
            return at_inference(self.layer.cell)(sequences[:, 0], before)
        _, after, _ = loop.run(
            replacement.cell,
            sequences,
            before,
            None,
            False,
            ([], []),
            return_sequences=False,
            unroll=True,
            center_kernels=center_kernels,
        )
        after = [ops.cast(state, self.layer.compute_dtype) for state in after]
        return after[0], after

    def _apply_mask(
        self, mask: Nest, output: Tensor, after: Nest, before: Nest
    ) -> tuple[Tensor, Nest]:
        """Apply a mask to one timestep: masked sequences keep their previous output and states."""
        layer = self.layer
        is_stacked = isinstance(layer.cell, keras.layers.StackedRNNCells)
        cell, states = (layer.cell.cells[-1], before[-1]) if is_stacked else (layer.cell, before)
        has_output_state = isinstance(cell, NormCell) or type(cell) in STATE_NAMES
        if not (has_output_state or layer.zero_output_for_mask):
            raise StreamingError(
                f'layer "{layer.name}" repeats its previous output at a masked timestep, but the '
                f"states of its {type(cell).__name__} may not contain the previous output. Build "
                "the layer with zero_output_for_mask=True"
            )
        unmasked = ops.cast(mask[0] if isinstance(mask, list | tuple) else mask, "bool")
        # A masked timestep repeats the previous output. In Keras' cells the output is the state h.
        previous = keras.tree.flatten(states)[0]
        previous = ops.zeros_like(output) if layer.zero_output_for_mask else previous
        new, old = keras.tree.flatten(after), keras.tree.flatten(before)
        result = [where_unmasked(unmasked, n, o) for n, o in zip(new, old, strict=True)]
        if isinstance(layer, NormRNN) and _counts_timesteps(layer):
            # The counter of timesteps, the last state of a NormRNN, counts masked timesteps too,
            # from the first unmasked timestep on.
            counted = ops.logical_or(ops.reshape(unmasked, (-1,)), read_counter(old[-1]) > 0)
            aligned = layer.cell.slots.needs_alignment(training=False)
            result[-1] = advance_counter(old[-1], counted) if aligned else new[-1]
        output = where_unmasked(unmasked, output, previous)
        return output, keras.tree.pack_sequence_as(before, result)


def layer_timesteps(model: keras.Model, taken: Iterable[str]) -> list[LayerTimestep]:
    """Return a `LayerTimestep` for each recurrent layer of a model; no state has a `taken` name.

    Raises:
        StreamingError: there is no recurrent layer, or a layer cannot run timestep by timestep.
    """
    layers: dict[str, keras.layers.RNN] = {}
    for path, layer in named_layers(model):
        if not isinstance(layer, keras.layers.RNN):
            continue
        if layer.go_backwards:
            raise StreamingError(
                f'layer "{path}" ({type(layer).__name__}) runs backward, from the end of the '
                "sequence, but a stream has no end yet"
            )
        if layer.stateful:
            raise StreamingError(
                f'layer "{path}" is stateful, but the client of a stream keeps the states: build '
                "the layer with stateful=False"
            )
        (name,) = signature.unique([layer.name], layers)
        layers[name] = layer
    if not layers:
        raise StreamingError("the model has no recurrent layer, so it has no states")
    names, timesteps = [*taken], []
    for name, layer in layers.items():
        timesteps.append(LayerTimestep(name, layer, names))
        names += timesteps[-1].states
    return timesteps


def _state_names(layer: keras.layers.RNN, count: int) -> tuple[list[str], bool]:
    """Return names for the `count` states of a layer's cell, and whether the cell is known."""
    of_keras = (n for cls, n in STATE_NAMES.items() if isinstance(layer.cell, cls))
    names = getattr(layer.cell, "STATES", ()) or next(of_keras, ())
    names = [*names, *["steps"] * _counts_timesteps(layer)]
    is_known = len(names) == count
    return (names if is_known else [f"state_{i}" for i in range(count)]), is_known


def _counts_timesteps(layer: keras.layers.RNN) -> bool:
    """Return whether the last state of a layer's cell is a counter of timesteps."""
    return isinstance(layer.cell, NormCell) and layer.cell.slots.count_steps
