"""Run the recurrent layers of a model for one timestep, from given states.

::

    s_t = state_t - initial state        s_-1 = 0

The caller passes and receives s, so that every stream begins with zeros, whatever the initial
states of the layer are.
"""

from collections.abc import Callable, Iterable, Mapping

import keras
import numpy as np
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
from keras_norm.rnn.random_masks import NO_MASKS
from keras_norm.rnn.timestep_counter import advance_counter, read_counter
from keras_norm.substitution import Function
from keras_norm.typing import Nest, Tensor, Tensors

# Class of a Keras cell -> names of its states. The cells of keras_norm are subclasses of these
# Keras classes, so the states of keras_norm's cells get these names too.
STATE_NAMES = {
    keras.layers.LSTMCell: ["h", "c"],
    keras.layers.GRUCell: ["h"],
    keras.layers.SimpleRNNCell: ["h"],
}


class LayerTimestep:
    """Run a recurrent layer for one timestep.

    A state whose initial value is learned or is not zero is an input and an output minus its
    initial value.

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
        hidden_states: names of the states that begin with zeros, and that the cell multiplies with
            a kernel: "h" of a known cell, and all states of any other cell. Empty for a joint form,
            whose norms take the product U h only together with W x.
    """

    def __init__(self, name: str, layer: keras.layers.RNN, taken: Iterable[str]) -> None:
        self.name, self.layer = name, layer
        if not has_keras_loop(layer):
            raise StreamingError(
                f'layer "{name}" ({type(layer).__name__}) overrides `inner_loop`, so it cannot run '
                "timestep by timestep. Use a layer of Keras or of keras_norm"
            )
        self._structure = self._initial_states()
        initial = keras.tree.flatten(self._structure)
        if not all(np.isfinite(to_numpy(x)).all() for x in initial):
            raise StreamingError(
                f'layer "{name}" has an initial state that is NaN or infinite. A single-step model '
                "subtracts initial states from states, so the initial states must be finite"
            )
        own, is_known = _state_names(layer, len(initial))
        names = signature.unique([f"{name}_{state}" for state in own], taken)
        self.states = {
            state: TensorSpec(state, (None, *x.shape[1:]), standardize_dtype(x.dtype))
            for state, x in zip(names, initial, strict=True)
        }
        self._is_zero = [
            k >= _count_learned(cell) and not to_numpy(x).any()
            for cell, part in self._by_cell(self._structure)
            for k, x in enumerate(part)
        ]
        is_joint = isinstance(layer.cell, NormCell) and layer.cell.joint_slots()
        multiplied = [] if is_joint else names[:1] if is_known else names
        hidden = zip(multiplied, self._is_zero, strict=False)
        self.hidden_states = [state for state, is_zero in hidden if is_zero]
        # Create the layer and its variables here, because `methods` may run in a TensorFlow graph.
        self._replacement = replacement_layer(layer)

    def methods(
        self, states: Mapping[str, Tensor], after: dict[str, Tensor], center_kernels: bool
    ) -> dict[str, Function]:
        """Return replacements for the layer's methods, so that the layer runs only one timestep.

        They read the states before the timestep from `states`, and write the states after it to
        `after`.
        """
        name, has_initial_state = self.name, True
        given = [ops.cast(states[state], spec.dtype) for state, spec in self.states.items()]
        structure = self._structure if all(self._is_zero) else self._initial_states()
        initial = keras.tree.flatten(structure)

        def get_initial_state(batch_size: int | Tensor) -> Nest:
            nonlocal has_initial_state
            has_initial_state = False
            return self._pack(given)

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
                    f'layer "{name}" is called twice, and both calls would share its states: use '
                    "two layers"
                )
            old = given
            if isinstance(mask, MaskWithResets):
                resets, mask = ops.cast(mask.resets, "bool"), mask.mask
                old = [where_unmasked(resets, ops.zeros_like(s), s) for s in given]
            before = self._shift(ops.add, old, initial)
            output, states = self._run_cell(sequences, self._pack(before), center_kernels)
            new = self._shift(ops.subtract, keras.tree.flatten(states), initial)
            if mask is not None:
                output, new = self._apply_mask(mask, output, new, old, before)
                states = self._pack(self._shift(ops.add, new, initial))
            after.update(zip(self.states, new, strict=True))
            return output, ops.expand_dims(output, 1), states

        return {
            "get_initial_state": get_initial_state,
            "inner_loop": inner_loop,
            "_maybe_config_dropout_masks": lambda *_: None,
        }

    def _initial_states(self) -> Nest:
        """Return the states before the first timestep, for one sequence.

        The states of a keras_norm cell include its counter of timesteps.
        """
        layer = self.layer
        try:
            return (layer.cell if isinstance(layer, NormRNN) else layer).get_initial_state(1)
        # The cell's code may be a user's, so it may raise any error.
        except Exception as error:
            raise StreamingError(
                f'layer "{self.name}" cannot create its states before the first timestep: '
                f"{one_line(error)}"
            ) from error

    def _by_cell(self, states: Nest) -> list[tuple[keras.layers.Layer, Tensors]]:
        """Return a pair for each cell of the layer: the cell, and the list of its states."""
        cell = self.layer.cell
        is_stacked = isinstance(cell, keras.layers.StackedRNNCells)
        pairs = zip(cell.cells, states, strict=True) if is_stacked else [(cell, states)]
        return [(cell, keras.tree.flatten(of_cell)) for cell, of_cell in pairs]

    def _pack(self, states: Tensors) -> Nest:
        """Arrange a list of states in the nested structure that the cell takes."""
        return keras.tree.pack_sequence_as(self._structure, states)

    def _shift(
        self, operation: Callable[[Tensor, Tensor], Tensor], states: Tensors, initial: Tensors
    ) -> Tensors:
        """Add initial states to states, or subtract them; skip initial states that are zeros."""
        pairs = zip(states, initial, self._is_zero, strict=True)
        return [s if is_zero else operation(s, x) for s, x, is_zero in pairs]

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
            NO_MASKS,
            return_sequences=False,
            unroll=True,
            center_kernels=center_kernels,
        )
        after = [ops.cast(state, self.layer.compute_dtype) for state in after]
        return after[0], after

    def _apply_mask(
        self, mask: Nest, output: Tensor, new: Tensors, old: Tensors, before: Tensors
    ) -> tuple[Tensor, Tensors]:
        """Apply a mask to one timestep: masked sequences keep their previous output and states.

        Args:
            mask: mask of the timestep, bool (batch, 1).
            output: the output of the cell.
            new: the states after the timestep, minus the initial states.
            old: the states before the timestep, minus the initial states.
            before: the states before the timestep.
        """
        layer = self.layer
        cell, states = self._by_cell(self._pack(before))[-1]
        has_output_state = isinstance(cell, NormCell) or type(cell) in STATE_NAMES
        if not (has_output_state or layer.zero_output_for_mask):
            raise StreamingError(
                f'layer "{layer.name}" repeats its previous output at a masked timestep. It is not '
                f"known whether the states of its {type(cell).__name__} contain the previous "
                "output. Build the layer with zero_output_for_mask=True"
            )
        unmasked = ops.cast(mask[0] if isinstance(mask, list | tuple) else mask, "bool")
        # A masked timestep repeats the previous output, which is the state h of the cell. Before
        # the first unmasked timestep there is no previous output, so the output is zeros.
        k = len(before) - len(states)
        previous = ops.zeros_like(output) if layer.zero_output_for_mask else before[k]
        if not (layer.zero_output_for_mask or self._is_zero[k]):
            has_output = ops.max(ops.abs(old[k]), axis=-1, keepdims=True) > 0
            previous = ops.where(has_output, previous, ops.zeros_like(output))
        result = [where_unmasked(unmasked, n, o) for n, o in zip(new, old, strict=True)]
        if isinstance(layer, NormRNN) and _counts_timesteps(layer):
            # The last of this layer's states is a timestep counter. The counter also counts masked
            # timesteps. If `aligned`, it does not count the masked timesteps before the first
            # unmasked timestep.
            counted = ops.logical_or(ops.reshape(unmasked, (-1,)), read_counter(old[-1]) > 0)
            aligned = layer.cell.slots.needs_alignment(training=False)
            result[-1] = advance_counter(old[-1], counted) if aligned else new[-1]
        return where_unmasked(unmasked, output, previous), result


def layer_timesteps(model: keras.Model, taken: Iterable[str]) -> list[LayerTimestep]:
    """Return a `LayerTimestep` for each recurrent layer; no state gets a name in `taken`.

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
    """Return the states' names: (["h", "c"], True), or (["state_0", ...], False) if unknown."""
    of_keras = (n for cls, n in STATE_NAMES.items() if isinstance(layer.cell, cls))
    names = getattr(layer.cell, "STATES", ()) or next(of_keras, ())
    names = [*names, *["steps"] * _counts_timesteps(layer)]
    is_known = len(names) == count
    return (names if is_known else [f"state_{i}" for i in range(count)]), is_known


def _count_learned(cell: keras.layers.Layer) -> int:
    """Return the number of learned initial states, which are the first states of a cell."""
    return len(cell.initial_states) if isinstance(cell, NormCell) else 0


def _counts_timesteps(layer: keras.layers.RNN) -> bool:
    """Return whether the last state of a layer's cell is a counter of timesteps."""
    return isinstance(layer.cell, NormCell) and layer.cell.slots.count_steps
