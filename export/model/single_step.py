"""Run a model one timestep at a time, for streams of unknown length.

::

    y_t, states = step(x_t, states)        t = 0, 1, ...        states = zeros before t = 0

The outputs y_0, y_1, ... are equal to the model's outputs for the whole sequence x. If the initial
state of a layer is learned or not zero, the step's state is the difference from it.
"""

import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

import keras
import numpy as np
from keras import ops

from keras_norm.export import signature
from keras_norm.export.compare.arrays import numpy_dtype
from keras_norm.export.compare.samples import is_whole
from keras_norm.export.errors import StreamingError, one_line
from keras_norm.export.input_names import TensorSpec, with_file_names
from keras_norm.export.model.layer_timestep import layer_timesteps
from keras_norm.export.runtimes.worker_runner import WorkerRunner
from keras_norm.keras_internals import SHAPE_CHECK, nodes_of
from keras_norm.named_layers import named_layers
from keras_norm.substitution import Function, Owner, substituted_functions
from keras_norm.typing import Array, Arrays, Tensor
from keras_norm_verify.run_over_time import run_over_time

RunStep: TypeAlias = Callable[[Arrays], Mapping[str, Array]]
# Function that runs whole sequences timestep by timestep, and returns the outputs. It takes three
# arguments: a dict of sequences; a dict of other inputs and initial states; the states' names.
RunStream: TypeAlias = Callable[[Arrays, Arrays, list[str]], Arrays]


class Step:
    """Run one timestep of a model: compute outputs and new states from inputs and states.

    An input or output (batch, time, ...) of the model becomes one (batch, ...) of the step. The
    number of timesteps may be dynamic or static. An output without time is the model's output so
    far.

    Each state of a recurrent layer is an input and an output with one name: "<layer>_h" and
    "<layer>_c" for the LSTM, GRU and SimpleRNN families, "<layer>_steps" for the counter of a cell
    that stores statistics for every timestep, and "<layer>_state_0", ... for any other cell. A
    state with a learned initial value is an input and an output minus this value.

    This class does not compare the step's outputs with the model's outputs; the exporters do. For
    example, pooling over time gives other outputs in a step. Other threads may call the model.

    Args:
        model: a functional or a built sequential model.
        center_kernels: whether to center the kernels of LayerNorm, and not their products. This is
            faster only in a runtime that centers the kernels once, as TFLite does.

    Attributes:
        model: the model.
        inputs: the inputs of one timestep by name, without the states.
        states: the states by name, each (batch, size).
        hidden_states: names of the states that begin with zeros, and whose product with a kernel is
            normalized without the inputs, such as "lstm_h".
        sequences: names of the inputs with a time dimension.
        sequence_outputs: names of the outputs with a time dimension.
        length: number of timesteps of the model; None if the time is dynamic.

    Raises:
        StreamingError: no input has the time dimension of a recurrent layer, or the model has no
            recurrent layer, or one that runs backward, is stateful, has initial states, or
            overrides `inner_loop`.
        ValueError: the model has no symbolic inputs, because it is subclassed or not built.

    Example:
        >>> step = Step(model)
        >>> states = step.initial_states(batch=1)
        >>> for x_t in x_test[0]:  # (features,)
        ...     outputs, states = step({"rows": x_t[None]}, states)
        >>> sorted(states)
        ['lstm_c', 'lstm_h']
    """

    def __init__(self, model: keras.Model, *, center_kernels: bool = False) -> None:
        whole = signature.input_specs(model)
        outputs = dict(zip(signature.output_names(model), model.outputs, strict=True))
        self.model, self._center_kernels = model, center_kernels
        self._layers = layer_timesteps(model, [*whole, *outputs])
        self.states = {n: spec for layer in self._layers for n, spec in layer.states.items()}
        self.hidden_states = [n for layer in self._layers for n in layer.hidden_states]
        self.sequences = [n for n, s in whole.items() if s.shape[1:2] == (None,)]
        self.length = None if self.sequences else _static_length(self._layers[0].layer)
        if self.length is not None:
            self.sequences = [n for n, s in whole.items() if s.shape[1:2] == (self.length,)]
            outputs = self._with_dynamic_time(whole)
        if not self.sequences:
            raise StreamingError(
                "no input (batch, time, ...) has as many timesteps as the first recurrent layer. "
                "Use an input with dynamic time, keras.Input((None, ...))"
            )
        self.sequence_outputs = [n for n, t in outputs.items() if tuple(t.shape[1:2]) == (None,)]
        self.inputs = whole | {
            n: TensorSpec(n, (whole[n].shape[0], *whole[n].shape[2:]), whole[n].dtype)
            for n in self.sequences
        }

    def __repr__(self) -> str:
        return f"<Step of {self.model.name!r}, {signature.describe(self.inputs | self.states)}>"

    def initial_states(self, batch: int) -> Arrays:
        """Return the states before the first timestep: zeros.

        Args:
            batch: number of sequences.

        Raises:
            ValueError: `batch` is not an integer, or is negative.
        """
        if not is_whole(batch) or batch < 0:
            raise ValueError(f"batch must be an integer of at least 0; received {batch!r}")
        return {
            n: np.zeros([batch, *(size or 0 for size in s.shape[1:])], numpy_dtype(s.dtype))
            for n, s in self.states.items()
        }

    def __call__(
        self, inputs: Mapping[str, Tensor], states: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Run one timestep of the model: return its outputs and its new states.

        Args:
            inputs: name -> tensor, for every name in `inputs`.
            states: name -> tensor, for every name in `states`.

        Returns:
            The outputs by name, and the states after the timestep.

        Raises:
            ValueError: an input or a state is missing or unknown, or their batch sizes differ.
        """
        if isinstance(inputs, Mapping):
            inputs = with_file_names(inputs, self.inputs)
        signature.require_names(inputs, list(self.inputs), "the step")
        signature.require_names(states, list(self.states), "the step")
        sizes = {np.shape(tensor)[0] for tensor in (*inputs.values(), *states.values())} - {None}
        if len(sizes) > 1:
            raise ValueError(
                "all inputs and states of one timestep must have the same batch size; received "
                f"batch sizes {', '.join(map(str, sorted(sizes)))}"
            )
        sequences = {
            name: ops.expand_dims(tensor, 1) if name in self.sequences else tensor
            for name, tensor in inputs.items()
        }
        after: dict[str, Tensor] = {}
        methods: dict[Owner, dict[str, Function]] = {
            layer.layer: layer.methods(states, after, self._center_kernels)
            for layer in self._layers
        }
        # A model with a static number of timesteps, such as 10, refuses a single timestep. So
        # switch off Keras' check of shapes.
        if self.length is not None:
            for layer in (self.model, *(layer for _, layer in named_layers(self.model))):
                if isinstance(layer, keras.Model):
                    methods[layer] = {SHAPE_CHECK: lambda *_: None}
        with substituted_functions(methods):
            outputs = signature.call(self.model, sequences, training=False)
        for layer in self._layers:
            if not layer.states.keys() <= after.keys():
                raise StreamingError(
                    f'the states of layer "{layer.name}" were not updated: the model does not call '
                    "the layer, or passes it an initial_state"
                )
        return {n: self._without_time(n, tensor) for n, tensor in outputs.items()}, after

    def trace(self) -> signature.GraphFunction:
        """Compile the method `joined` to a TensorFlow graph, which runs faster."""
        return signature.named_function(self.joined, self.inputs | self.states)

    def joined(self, arguments: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run one timestep: take a dict of inputs and states, return a dict of outputs and states.

        The signature `step` of an exported model takes and returns such dicts.

        Args:
            arguments: name -> tensor, for every name in `inputs` and in `states`.

        Returns:
            Outputs and new states by name.
        """
        states = {name: arguments[name] for name in self.states}
        inputs = {name: arguments[name] for name in arguments if name not in states}
        outputs, after = self(inputs, states)
        return outputs | after

    def over_time(self, run: RunStep, inputs: Mapping[str, Array]) -> Arrays:
        """Run whole sequences timestep by timestep, and return the same outputs as the whole model.

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

    def every_timestep(self, run: RunStep, inputs: Mapping[str, Array]) -> Arrays:
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
            raise ValueError(
                f"all inputs with a time axis must have equal lengths; received {sorted(lengths)}"
            )
        specs = self.inputs
        run_all: RunStream = functools.partial(run_over_time, run)
        # A child process that runs a file receives all timesteps in one message, to save time.
        if isinstance(run, WorkerRunner):
            specs, run_all = run.inputs, run.run_over_time
        rows = len(next(iter(inputs.values())))
        size = next(filter(None, (spec.shape[0] for spec in specs.values())), rows)
        parts = []
        for start in range(0, rows, size):
            part = {name: array[start : start + size] for name, array in inputs.items()}
            sequences = {name: part.pop(name) for name in self.sequences}
            others = part | self.initial_states(len(next(iter(sequences.values()))))
            parts.append(run_all(sequences, others, list(self.states)))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _with_dynamic_time(self, specs: Mapping[str, TensorSpec]) -> dict[str, Tensor]:
        """Return the symbolic outputs by name for sequences with a dynamic number of timesteps."""
        inputs = {}
        for name, spec in specs.items():
            time = [None] if name in self.sequences else list(spec.shape[1:2])
            inputs[name] = keras.KerasTensor((spec.shape[0], *time, *spec.shape[2:]), spec.dtype)
        try:
            outputs = self.model.compute_output_spec(signature.pack_inputs(self.model, inputs))
        # A layer may raise any error, for example if it reshapes its inputs to a static shape.
        except Exception as error:
            raise StreamingError(
                f"the model does not run with another number of timesteps: {one_line(error)}"
            ) from error
        names = signature.output_names(self.model)
        return dict(zip(names, keras.tree.flatten(outputs), strict=True))

    def _without_time(self, name: str, tensor: Tensor) -> Tensor:
        if name not in self.sequence_outputs:
            return tensor
        if tensor.shape[1] != 1:
            raise StreamingError(
                f'output "{name}" has {tensor.shape[1]} timesteps for each timestep of the inputs, '
                "but a single-step model must return exactly one"
            )
        return ops.squeeze(tensor, axis=1)


def _static_length(layer: keras.layers.RNN) -> int | None:
    """Return the number of timesteps of a recurrent layer; None if it is dynamic."""
    # The length is unknown for a layer without a symbolic call, such as a layer in a wrapper.
    lengths: list[int | None] = [node.input_tensors[0].shape[1] for node in nodes_of(layer)[:1]]
    return lengths[0] if lengths else None
