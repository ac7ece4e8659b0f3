"""What every normalized cell shares."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from keras_norm.layers.arguments import DeclaredArguments
from keras_norm.layers.inputs import is_int
from keras_norm.ops.projection import project
from keras_norm.rnn import norms, step_counter
from keras_norm.rnn.start import CandidateNormal

Norm = Callable[[str, Any], Any]


class Weights(NamedTuple):
    """What a step multiplies and adds: W, U, and the biases of x W and of h U, or None."""

    kernel: Any
    recurrent_kernel: Any
    bias: Any
    recurrent_bias: Any = None


class NormCell(DeclaredArguments):
    """Turns a Keras cell into one with normalization inside; stands before it in the bases.

    The Keras cell brings its arguments, its weights and its dropout. A subclass gives the two pure
    halves of a step: `project_inputs`, all that does not depend on the state, and `step`, the rest.
    `call` joins them for keras.layers.RNN; the sequence layers run the first half for all timesteps
    at once.

    Args:
        units: size of the state.
        norm: None, a template layer for every slot, or a dict from slots to templates.
        slots: the slots there are, in the order of their weights, each with its width in units.
        *args: further arguments of the Keras cell.
        **kwargs: arguments of the Keras cell. Without a `bias_initializer` it is zeros, or with any
            norm but a BatchNormalization `CandidateNormal()`. With `use_bias=False` the beta of the
            kernel's norm starts so; where that has none there is a bias after all.
    """

    HIDDEN: ClassVar = ("slots",)
    DEFAULTS: ClassVar = {"bias_initializer": None}
    CANDIDATE: ClassVar = -1  # the gate that tanh acts on, in the order of the kernels' columns
    is_loaded = False
    state_size: Any
    use_bias: bool

    def __init__(
        self, units: int, norm: Any, slots: Mapping[str, int], *args: Any, **kwargs: Any
    ) -> None:
        if not is_int(units) or units < 1:
            raise ValueError(f"units must be a whole number from 1 on. Received: units={units!r}.")
        super().__init__(units, *args, **kwargs)
        self.slots = norms.Slots(norm, {slot: n * units for slot, n in slots.items()})
        self.real_state_sizes = keras.tree.flatten(self.state_size)
        if self.slots.count_steps:
            self.state_size = [*self.real_state_sizes, step_counter.DIGITS]
        given = inspect.signature(super().__init__).bind(units, *args, **kwargs).arguments
        if given.get("bias_initializer") is None:
            of_rows = self.slots.normalize_rows
            self.bias_initializer = CandidateNormal() if of_rows else keras.initializers.Zeros()
        if isinstance(self.bias_initializer, CandidateNormal):
            self.bias_initializer = self.bias_initializer.of(units, self.CANDIDATE)
            if not self.use_bias:
                self.use_bias = not self.slots.start_beta(self.bias_initializer)

    @property
    def norm(self) -> Any:
        """The `norm` that the cell was made with."""
        return self.slots.norm

    def build(self, input_shape: Any) -> None:
        """Create the weights of the Keras cell, then those of the norms."""
        super().build(input_shape)
        if not self.is_loaded:
            self.slots.warn_of_few_features(input_shape[-1])
        for slot, layer in self.slots.fill(self.dtype_policy, self.trainable).items():
            setattr(self, slot, layer)

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Build a cell of a saved or copied model, which warned when it was new."""
        self.is_loaded = True
        super().build_from_config(config)

    def slot_layers(self) -> dict[str, Any]:
        """The norms, by slot."""
        return {slot: getattr(self, slot) for slot in self.slots.templates}

    def step_weights(self) -> Weights:
        """The weights that `project_inputs` and `step` are to be given."""
        return Weights(self.kernel, self.recurrent_kernel, self.bias)

    def project_inputs(self, weights: Weights, inputs: Any, dropout: list[Any], norm: Norm) -> Any:
        """The part of a step that needs no state, for (batch, features) or (time, batch, features).

        Args:
            weights: of `step_weights`, or what stands for them.
            inputs: the cell's inputs.
            dropout: masks of `inputs`: none, one, or one for each gate.
            norm: (slot, tensor) -> tensor.
        """
        x = norm("kernel_norm", project(inputs, weights.kernel, dropout))
        if weights.bias is None or "kernel_norm" not in self.slots.widths:
            return x  # the norms are of x W + h U, and the bias comes after them
        return x + weights.bias

    def step(
        self, weights: Weights, x: Any, states: list[Any], dropout: list[Any], norm: Norm
    ) -> list[Any]:
        """The rest of a step: the new states, the first of which is the output.

        Args:
            weights: as for `project_inputs`.
            x: what `project_inputs` gave for this timestep.
            states: the states before the step.
            dropout: masks of the first state, as for `project_inputs`.
            norm: (slot, tensor) -> tensor.
        """
        raise NotImplementedError

    def gradient_cell(self) -> str | None:
        """The cell's name in the gradient by hand, or None where that does not cover it."""
        raise NotImplementedError

    def dropout_masks(self, inputs: Any, h: Any, training: bool) -> tuple[list[Any], list[Any]]:
        """Masks of inputs (batch, features) and of h, drawn once for all timesteps.

        Of each there are none, one, or one for each gate.
        """
        if not training:
            return [], []
        drawn = self.get_dropout_mask(inputs), self.get_recurrent_dropout_mask(h)
        of_inputs, of_h = ([] if masks is None else keras.tree.flatten(masks) for masks in drawn)
        return of_inputs, of_h

    def call(self, inputs: Any, states: Any, training: bool = False) -> tuple[Any, Any]:
        """One step, as keras.layers.RNN calls it.

        Args:
            inputs: (batch, features).
            states: the states before the step, each (batch, units); a cell with statistics of every
                timestep takes its counter, (batch, 2), as the last.
            training: whether dropout and batch statistics are on.

        Returns:
            The output (batch, units), and the states after the step.
        """
        given = keras.tree.flatten(states)
        if len(given) != len(keras.tree.flatten(self.state_size)):
            its = f" and its counter, zeros of shape (batch, {step_counter.DIGITS}) at the start"
            raise ValueError(
                f"{type(self).__name__} takes {len(self.real_state_sizes)} states"
                f"{its if self.slots.count_steps else ''}. Received {len(given)}: "
                "get_initial_state gives them all."
            )
        counter = given.pop() if self.slots.count_steps else None

        def norm(slot: str, x: Any) -> Any:
            layer = self.slot_layers().get(slot)
            if layer is None:
                return x
            step = None if counter is None else step_counter.read(counter)
            return norms.call_layer(layer, x, training, step=step)

        input_masks, recurrent_masks = self.dropout_masks(inputs, given[0], training)
        weights = self.step_weights()
        x = self.project_inputs(weights, inputs, input_masks, norm)
        new = self.step(weights, x, given, recurrent_masks, norm)
        if counter is not None:
            new = [*new, step_counter.advance(counter)]
        return new[0], new if isinstance(states, list | tuple) else new[0]

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        """Zeros for every state."""
        sizes = keras.tree.flatten(self.state_size)
        return [ops.zeros((batch_size, size), dtype=self.compute_dtype) for size in sizes]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The cell that `get_config` describes."""
        return cls(**with_norm(config))


def with_norm(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with its `norm` turned into layers."""
    if config.get("norm") is None:
        return config
    return {**config, "norm": keras.saving.deserialize_keras_object(config["norm"])}
