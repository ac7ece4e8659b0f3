"""Run a model one timestep at a time, for streams of unknown length.

::

    y_t, states = step(x_t, states)        t = 0, 1, ...        states = zeros before t = 0

The outputs y_0, y_1, ... are equal to the model's outputs for the whole sequence x.
"""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_norm.export import signature
from keras_norm.export.compare.input_cases import is_whole
from keras_norm.export.errors import StreamingError, one_line
from keras_norm.export.model.layer_replacement import (
    at_inference,
    has_keras_loop,
    replacement_layer,
    where_unmasked,
)
from keras_norm.export.runtimes import worker_protocol as protocol
from keras_norm.export.runtimes.worker_runner import WorkerRunner
from keras_norm.export.signature import TensorSpec
from keras_norm.named_layers import named_layers
from keras_norm.rnn import loop
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.norm_rnn import NormRNN
from keras_norm.substitution import Function, substituted_functions

# Names of the states of Keras' cells and of keras_norm's cells.
STATE_NAMES = {
    keras.layers.LSTMCell: ("h", "c"),
    keras.layers.GRUCell: ("h",),
    keras.layers.SimpleRNNCell: ("h",),
}

RunStep = Callable[[dict[str, Any]], Mapping[str, Any]]


class Step:
    """Run one timestep of a model: outputs and new states from inputs and states.

    An input (batch, time, ...) with a dynamic time dimension becomes an input (batch, ...) of the
    step. An output (batch, time, ...) becomes an output (batch, ...) of the step. An output without
    a time dimension is the model's output for all timesteps so far.

    Each state of a recurrent layer is an input and an output with one name:

    - "<layer>_h" and "<layer>_c" for the states of the LSTM, GRU and SimpleRNN families,
    - "<layer>_steps" for the counter of a cell that stores statistics for every timestep,
    - "<layer>_state_0", "<layer>_state_1", ... for the states of any other cell.

    This class does not check the step's outputs against the model's outputs; the exporters do. For
    example, the step of a model that pools over time computes other outputs than the model.
    Other threads may call the model while a step runs.

    Args:
        model: a functional or a built sequential model.
        center_kernels: whether to subtract the row means of the kernels of LayerNorm before each
            product, and not the means of the products. This is faster only in a runtime that
            computes the centered kernels once, as TFLite does.

    Attributes:
        model: the model.
        inputs: the inputs of one timestep by name, without the states.
        states: the states by name, each (batch, size).
        sequences: names of the inputs with a dynamic time dimension.
        sequence_outputs: names of the outputs with a dynamic time dimension.

    Raises:
        StreamingError: no input has a dynamic time dimension; or the model has no recurrent layer;
            or a recurrent layer runs backward, is stateful, has initial states other than zeros, or
            has an `inner_loop` of its own.
        ValueError: as for `signature.input_specs`.

    Example:
    ```python
    step = Step(model)
    states = step.initial_states(batch=1)
    for x_t in stream:  # (1, features)
        outputs, states = step({"x": x_t}, states)
    ```
    """

    def __init__(self, model: keras.Model, *, center_kernels: bool = False) -> None:
        self._center_kernels = center_kernels
        whole = signature.input_specs(model)
        self.sequences = [n for n, s in whole.items() if s.shape[1:2] == (None,)]
        outputs = dict(zip(signature.output_names(model), model.outputs, strict=True))
        self.sequence_outputs = [n for n, t in outputs.items() if tuple(t.shape[1:2]) == (None,)]
        self.model = model
        self._layers = _recurrent_layers(model)
        if not self.sequences:
            raise StreamingError(
                "no input has open time: build the model with keras.Input((None, ...))"
            )
        for name, layer in self._layers.items():
            if not has_keras_loop(layer):
                raise StreamingError(
                    f'layer "{name}" ({type(layer).__name__}) has an inner_loop of its own, which '
                    "cannot be cut into timesteps. Use a layer of Keras or of keras_norm"
                )
        self._structures = {name: _zeros(name, layer) for name, layer in self._layers.items()}
        # Created here, because replacement layers hold variables, and a graph cannot create them.
        self._replacements = {n: replacement_layer(layer) for n, layer in self._layers.items()}
        self.inputs = {
            name: TensorSpec(name, (spec.shape[0], *spec.shape[2:]), spec.dtype)
            if name in self.sequences
            else spec
            for name, spec in whole.items()
        }
        self.states: dict[str, TensorSpec] = {}
        self._names: dict[str, list[str]] = {}
        for name, layer in self._layers.items():
            zeros = keras.tree.flatten(self._structures[name])
            wanted = [f"{name}_{state}" for state in _state_names(layer, len(zeros))]
            self._names[name] = signature.unique(wanted, [*whole, *outputs, *self.states])
            for state, tensor in zip(self._names[name], zeros, strict=True):
                dtype = keras.backend.standardize_dtype(tensor.dtype)
                self.states[state] = TensorSpec(state, (None, *tensor.shape[1:]), dtype)

    def initial_states(self, batch: int) -> dict[str, np.ndarray]:
        """Return the states before the first timestep: zeros.

        Args:
            batch: number of sequences.

        Raises:
            ValueError: `batch` is not an integer, or is negative.
        """
        if not is_whole(batch) or batch < 0:
            raise ValueError(f"batch is a number of sequences; received {batch!r}")
        return {
            # NumPy has no bfloat16, so float32 replaces it.
            name: np.zeros(
                [batch, *(size or 0 for size in spec.shape[1:])],
                "float32" if spec.dtype == "bfloat16" else spec.dtype,
            )
            for name, spec in self.states.items()
        }

    def __call__(
        self, inputs: Mapping[str, Any], states: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run one timestep.

        Args:
            inputs: name -> tensor, for every name in `inputs`.
            states: name -> tensor, for every name in `states`.

        Returns:
            The outputs by name, and the states after the timestep.

        Raises:
            ValueError: an input or a state is missing or unknown, or their batch sizes differ.
        """
        signature.require_names(inputs, list(self.inputs), "the step")
        signature.require_names(states, list(self.states), "the step")
        sizes = {np.shape(tensor)[0] for tensor in (*inputs.values(), *states.values())} - {None}
        if len(sizes) > 1:
            raise ValueError(
                "the inputs and states of a step have one batch size; received "
                f"{', '.join(map(str, sorted(sizes)))}"
            )
        now = {
            name: ops.expand_dims(tensor, 1) if name in self.sequences else tensor
            for name, tensor in inputs.items()
        }
        new: dict[str, Any] = {}
        loops: dict[Any, dict[str, Function]] = {}
        for name, layer in self._layers.items():
            given = [ops.cast(states[n], self.states[n].dtype) for n in self._names[name]]
            before = keras.tree.pack_sequence_as(self._structures[name], given)
            loops[layer] = _one_timestep(
                name, layer, self._replacements[name], before, new, self._center_kernels
            )
        with substituted_functions(loops):
            outputs = signature.call(self.model, now, training=False)
        for name in self._layers:
            if name not in new:
                raise StreamingError(f'layer "{name}" is not called, or takes an initial_state')
        after = {
            state: tensor
            for name, names in self._names.items()
            for state, tensor in zip(names, keras.tree.flatten(new[name]), strict=True)
        }
        return {n: self._without_time(n, tensor) for n, tensor in outputs.items()}, after

    def joined(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run one timestep with inputs and states in one dict, as the signature `step` takes them.

        Args:
            arguments: name -> tensor, for every name in `inputs` and in `states`.

        Returns:
            Outputs and new states by name.
        """
        states = {name: arguments[name] for name in self.states}
        inputs = {name: arguments[name] for name in arguments if name not in states}
        outputs, after = self(inputs, states)
        return outputs | after

    def over_time(self, run: RunStep, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run whole sequences timestep by timestep, and return outputs shaped as the model's.

        Args:
            run: `joined`, or the signature `step` of an exported model.
            inputs: name -> array, (batch, time, ...) for every name in `sequences`.

        Returns:
            For each name in `sequence_outputs`, the outputs at every timestep, (batch, time, ...).
            For each other output, its value after the last timestep.
        """
        return {
            name: array if name in self.sequence_outputs else array[:, -1]
            for name, array in self.every_timestep(run, inputs).items()
        }

    def every_timestep(
        self, run: RunStep, inputs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Run whole sequences timestep by timestep, and return every output at each timestep.

        If the model or the runner has a static batch size, the sequences are split into batches of
        that size.

        Args:
            run: as for `over_time`.
            inputs: as for `over_time`.

        Returns:
            Every output after each timestep: (batch, time, ...).

        Raises:
            ValueError: the inputs in `sequences` differ in length.
        """
        lengths = {inputs[name].shape[1] for name in self.sequences}
        if len(lengths) > 1:
            raise ValueError(f"the inputs of a stream have one length; received {sorted(lengths)}")
        specs = run.inputs if isinstance(run, WorkerRunner) else self.inputs
        rows = len(next(iter(inputs.values())))
        size = next(filter(None, (spec.shape[0] for spec in specs.values())), rows)
        parts = [
            self._in_one_batch(run, {n: a[start : start + size] for n, a in inputs.items()})
            for start in range(0, rows, size)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _in_one_batch(
        self, run: RunStep, inputs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        sequences = {name: inputs[name] for name in self.sequences}
        others = {name: array for name, array in inputs.items() if name not in sequences}
        others |= self.initial_states(next(iter(inputs.values())).shape[0])
        if isinstance(run, WorkerRunner):  # one request to its process runs all timesteps
            return run.run_over_time(sequences, others, list(self.states))
        return protocol.run_over_time(run, sequences, others, list(self.states))

    def _without_time(self, name: str, tensor: Any) -> Any:
        if name not in self.sequence_outputs:
            return tensor
        if tensor.shape[1] != 1:
            raise StreamingError(
                f'output "{name}" has {tensor.shape[1]} timesteps for one of the inputs'
            )
        return ops.squeeze(tensor, axis=1)


def _one_timestep(
    name: str,
    layer: keras.layers.RNN,
    replacement: NormRNN | None,
    before: Any,
    new: dict[str, Any],
    center_kernels: bool,
) -> dict[str, Function]:
    """Return methods for a layer that run its cell once from `before` and write to `new`.

    Args:
        name: the layer's name in messages, and its key in `new`.
        layer: the recurrent layer.
        replacement: its replacement layer, or None.
        before: the states before the timestep.
        new: states after the timestep by layer name; the layer adds its own states.
        center_kernels: as for `Step`.
    """
    asked = False

    def get_initial_state(batch_size: Any) -> Any:
        nonlocal asked
        asked = True
        return before

    def inner_loop(
        sequences: Any, initial_state: Any, mask: Any, training: bool = False
    ) -> tuple[Any, Any, Any]:
        if not asked:
            raise StreamingError(
                f'layer "{name}" takes an initial_state, and a stream starts from zeros. Export '
                "the part of the model behind that state as a model of its own, with the states "
                "as inputs and outputs"
            )
        if sequences.shape[1] != 1:
            raise StreamingError(f'layer "{name}" runs over something else than the stream\'s time')
        if name in new:
            raise StreamingError(f'layer "{name}" is called twice: its states would be shared')
        output, after = _run_cell(layer, replacement, sequences, before, center_kernels)
        if mask is not None:
            output, after = _masked_timestep(layer, mask, output, after, before)
        new[name] = after
        return output, ops.expand_dims(output, 1), after

    return {
        "get_initial_state": get_initial_state,
        "inner_loop": inner_loop,
        "_maybe_config_dropout_masks": lambda *_: None,
    }


def _run_cell(
    layer: keras.layers.RNN,
    replacement: NormRNN | None,
    sequences: Any,
    before: Any,
    center_kernels: bool,
) -> tuple[Any, Any]:
    """Return the output and the states after one timestep of sequences (batch, 1, features)."""
    if replacement is not None and not _counts(replacement):
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
        after = [ops.cast(state, layer.compute_dtype) for state in after]
        return after[0], after
    return at_inference(layer.cell)(sequences[:, 0], before)


def _masked_timestep(
    layer: keras.layers.RNN, mask: Any, output: Any, after: Any, before: Any
) -> tuple[Any, Any]:
    """Return the output and the states of one timestep, unchanged for masked sequences."""
    stacked = isinstance(layer.cell, keras.layers.StackedRNNCells)
    cell, states = (layer.cell.cells[-1], before[-1]) if stacked else (layer.cell, before)
    repeats = isinstance(cell, NormCell) or type(cell) in STATE_NAMES
    if not (repeats or layer.zero_output_for_mask):
        raise StreamingError(
            f'layer "{layer.name}" repeats its last output where a sequence is masked, and '
            f"{type(cell).__name__} need not have it among its states. Build the layer with "
            "zero_output_for_mask=True"
        )
    mask = mask[0] if isinstance(mask, list | tuple) else mask
    unmasked = ops.cast(mask, "bool")
    # A masked timestep repeats the previous output. In Keras' cells that output is the state h.
    still = keras.tree.flatten(states)[0]
    still = ops.zeros_like(output) if layer.zero_output_for_mask else still
    flat = keras.tree.flatten(before)
    new = keras.tree.flatten(after)
    kept = [where_unmasked(unmasked, n, old) for n, old in zip(new, flat, strict=True)]
    if isinstance(layer, NormRNN) and _counts(layer):
        kept[-1] = new[-1]  # NormRNN counts the timesteps of the batch, also the masked timesteps
    output = where_unmasked(unmasked, output, still)
    return output, keras.tree.pack_sequence_as(before, kept)


def _recurrent_layers(model: keras.Model) -> dict[str, keras.layers.RNN]:
    """Return the recurrent layers by unique name.

    Raises:
        StreamingError: there is no recurrent layer, or a layer runs backward or is stateful.
    """
    found: dict[str, keras.layers.RNN] = {}
    for path, layer in named_layers(model):
        if not isinstance(layer, keras.layers.RNN):
            continue
        if layer.go_backwards:
            raise StreamingError(
                f'layer "{path}" ({type(layer).__name__}) runs backward, from the end of the '
                "sequence, which a stream has not reached"
            )
        if layer.stateful:
            raise StreamingError(
                f'layer "{path}" is stateful, but the states of a stream are its client\'s: build '
                "it with stateful=False"
            )
        (name,) = signature.unique([layer.name], found)
        found[name] = layer
    if not found:
        raise StreamingError("the model has no recurrent layer, and so no state")
    return found


def _zeros(name: str, layer: keras.layers.RNN) -> Any:
    """Return the initial states of a layer's cell, with its counter of timesteps.

    Raises:
        StreamingError: the initial states are not zeros, or the cell cannot create them.
    """
    try:
        states = (layer.cell if isinstance(layer, NormRNN) else layer).get_initial_state(1)
    except Exception as error:  # a user's cell may raise any error
        raise StreamingError(
            f'layer "{name}" has no states before the first timestep: {one_line(error)}'
        ) from error
    if any(ops.convert_to_numpy(state).any() for state in keras.tree.flatten(states)):
        raise StreamingError(
            f'layer "{name}" starts from states of its own, and a stream starts from zeros'
        )
    return states


def _counts(layer: keras.layers.RNN) -> bool:
    """Return whether the last state of a layer's cell is a counter of timesteps."""
    return isinstance(layer.cell, NormCell) and layer.cell.slots.count_steps


def _state_names(layer: keras.layers.RNN, count: int) -> list[str]:
    known = [names for cell, names in STATE_NAMES.items() if isinstance(layer.cell, cell)]
    if known:
        return [*known[0], *["steps"] * _counts(layer)]
    return [f"state_{i}" for i in range(count)]
