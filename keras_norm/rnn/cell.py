"""Base class of the normalized recurrent cells."""

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import keras
from keras import ops
from keras.activations import sigmoid, tanh

from keras_norm.layers.arguments import DeclaredArguments
from keras_norm.layers.inputs import is_int
from keras_norm.rnn.candidate_normal import CandidateNormal
from keras_norm.rnn.core.operations import Zero, project, side_by_side, split_columns
from keras_norm.rnn.core.recurrence import (
    CANDIDATE,
    GATE,
    Activate,
    ApplyNorm,
    CellWeights,
    StepGradients,
    StepResult,
    Weights,
)
from keras_norm.rnn.core.step_checks import check_step
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.rnn.core.zoneout import change_states, changes_at
from keras_norm.rnn.file_weights import FileWeights
from keras_norm.rnn.initial_states import InitialStates
from keras_norm.rnn.kernel_weights import KernelWeights
from keras_norm.rnn.norm_form import JOINT_SLOT, NormForm
from keras_norm.rnn.option_checks import require_bool, require_rate
from keras_norm.rnn.random_masks import RandomMasks
from keras_norm.rnn.slot_statistics import statistics_of_cell
from keras_norm.rnn.slot_warnings import warn_of_few_features, warn_of_small_projection
from keras_norm.rnn.slots import NormArgument, Slots, call_layer, deserialize_norm
from keras_norm.rnn.timestep_counter import COUNTER_DIGITS, advance_counter, read_counter
from keras_norm.typing import Config, Nest, Shape, Tensor, Tensors


class NormCell(NormForm, RandomMasks, InitialStates, FileWeights, KernelWeights, DeclaredArguments):
    """Mixin that adds normalization to a Keras cell; list it before the Keras cell in the bases.

    The Keras cell provides its arguments, weights and dropout. A subclass has the attributes of
    `NormForm`, and its equation is `forward_step`. A step has two halves. `project_inputs` computes
    the part without the state, for all timesteps at once in a sequence layer, and `step` computes
    the rest.

    Args:
        units: size of the state.
        norm: None, a template layer for every slot, or a dict from slots to templates.
        *args: further arguments of the Keras cell.
        norm_form: "separate", "joint" or "joint_all"; see `NormForm`.
        zoneout: probability that a unit of the output keeps its value at a timestep.
        learn_initial_state: whether the initial states are weights; see `InitialStates`.
        **kwargs: arguments of the Keras cell. `bias_initializer` defaults to `CandidateNormal()` if
            a slot has a per-sample norm, else to zeros. With `use_bias=False`, `CandidateNormal()`
            initializes the beta of the kernel norm. If the kernel norm has no beta, the cell has a
            bias in spite of `use_bias=False`.
    """

    DEFAULTS: ClassVar = {"bias_initializer": None}
    is_restored = False
    state_size: int | list[int]
    use_bias: bool

    def __init__(
        self,
        units: int,
        norm: NormArgument = None,
        *args: Any,
        norm_form: str = "separate",
        zoneout: float = 0.0,
        learn_initial_state: bool = False,
        **kwargs: Any,
    ) -> None:
        if not is_int(units) or units < 1:
            raise ValueError(f"units must be a positive integer. Received: units={units!r}.")
        super().__init__(units, *args, **kwargs)
        self.norm_form = norm_form
        self.zoneout = require_rate("zoneout", zoneout)
        self.learn_initial_state = require_bool("learn_initial_state", learn_initial_state)
        self.slots = Slots(norm, self.slot_widths(units, norm_form))
        sizes = self.state_sizes(units)
        self.recurrent_state_sizes, self.output_size = sizes, sizes[0]
        if self.STATES or len(sizes) > 1 or self.slots.count_steps:
            self.state_size = [*sizes, *[COUNTER_DIGITS] * self.slots.count_steps]
        given = inspect.signature(super().__init__).bind(units, *args, **kwargs).arguments
        if given.get("bias_initializer") is None:
            self.bias_initializer = keras.initializers.Zeros()
            if self.slots.has_per_sample_norm:
                self.bias_initializer = CandidateNormal()
        if isinstance(self.bias_initializer, CandidateNormal):
            self.bias_initializer = self.bias_initializer.for_cell(units, self.CANDIDATE)
            if not self.use_bias:
                self.use_bias = not self.slots.initialize_candidate_beta(self.bias_initializer)

    @property
    def norm(self) -> NormArgument:
        """The `norm` argument of the cell."""
        return self.slots.norm

    def build(self, input_shape: Shape) -> None:
        """Create the weights of the Keras cell, then the weights of the norms."""
        super().build(input_shape)
        self.require_columns()
        for slot, layer in self.slots.create_layers(self.dtype_policy, self.trainable).items():
            setattr(self, slot, layer)
        if not self.is_restored:
            warn_of_few_features(self.slots, self.kernel.shape[0])
            warn_of_small_projection(self.slots, self.slot_layers())

    def build_from_config(self, config: Config) -> None:
        """Build the cell of a loaded or copied model, without the warnings for a new cell."""
        self.is_restored = True
        super().build_from_config(config)

    def slot_layers(self) -> dict[str, keras.layers.Layer]:
        """Return a dict from names of norms, such as "kernel_norm", to the norm layers."""
        return {slot: getattr(self, slot) for slot in self.slots.templates}

    def step_weights(self) -> Weights:
        """Return the weights that `project_inputs` and `step` use."""
        return Weights(self.kernel, self.recurrent_kernel, self.bias)

    def step_options(self) -> dict[str, Any]:
        """Return a dict of the options that `forward_step` reads, with hashable values."""
        return {}

    def read_by_step(self, weights: Weights) -> CellWeights:
        """Return the argument `weights` of `forward_step`: `weights.cell` and the options."""
        return {**weights.cell, **self.step_options()}

    def project_inputs(
        self, weights: Weights, inputs: Tensor, dropout: list[Tensor], norm: ApplyNorm
    ) -> Tensor:
        """Compute W x, normalize it, and add the bias: this needs no states of the cell.

        A cell with a joint form only computes W x here.

        Args:
            weights: weights of `step_weights`, possibly centered or cast.
            inputs: (batch, features), or (time, batch, features) for all timesteps at once.
            dropout: dropout masks of `inputs`: none, one, or one per gate.
            norm: function (slot, tensor) -> tensor that applies the norm of a slot.
        """
        x = project(inputs, weights.kernel, dropout)
        if self.joint_slots():
            return x
        slots, _ = self.kernel_slots()
        if slots.keys() & self.slots.templates:
            groups = zip(slots, split_columns(x, [*slots.values()]), strict=True)
            x = side_by_side([norm(slot, group) for slot, group in groups])
        return x if weights.bias is None else x + weights.bias

    def step(
        self, weights: Weights, x: Tensor, states: Tensors, dropout: Tensors, norm: ApplyNorm
    ) -> Tensors:
        """Compute the states after one timestep; the first of these states is the output.

        Args:
            weights: as for `project_inputs`.
            x: result of `project_inputs` for this timestep.
            states: the states before the step.
            dropout: dropout masks of the first state: none, one, or one per gate.
            norm: as for `project_inputs`. In a joint form, `JOINT_SLOT` has all columns.
        """
        u = project(states[0], weights.recurrent_kernel, dropout)
        if self.joint_slots():
            z = norm(JOINT_SLOT, x + u)
            z = z if weights.bias is None else z + weights.bias
            us = split_columns(z, [*self.groups()])
            xs: Tensors = [Zero()] * len(us)
        else:
            of_x, of_h = self.kernel_slots()
            xs, widths = split_columns(x, [*of_x.values()]), [*of_h.values()]
            bias, has_norm = weights.recurrent_bias, of_h.keys() & self.slots.templates
            # Without norms, add the bias to all columns of h U at once, before they are split.
            u = u if bias is None or has_norm else u + bias
            us = [norm(*group) for group in zip(of_h, split_columns(u, widths), strict=True)]
            if bias is not None and has_norm:
                us = [y + b for y, b in zip(us, split_columns(bias, widths), strict=True)]
        step = self.forward_step(xs, us, states, self.read_by_step(weights), self.activate, norm)
        check_step(type(self), step, states)
        return [*step.states]

    @staticmethod
    def forward_step(
        x: Tensors,
        u: Tensors,
        states: Tensors,
        weights: CellWeights,
        activate: Activate,
        norm: ApplyNorm,
    ) -> StepResult:
        """Compute the new states of one timestep: the equation of the cell, as a pure function.

        Args:
            x: normalized x W plus the bias, for each group of columns with a common norm.
            u: normalized h U, for each group.
            states: the states before the step.
            weights: further weights of the cell by name, its `step_options`, and the masks of this
                timestep.
            activate: function (pre-activations, kinds of the gates) -> list of activated gates.
            norm: function (slot, tensor) -> tensor that applies the norm of a slot.
        """
        raise NotImplementedError

    @staticmethod
    def backward_step(
        gates: Tensors,
        residuals: Tensors,
        old: Tensors,
        new: Tensors,
        d_states: Tensors,
        weights: CellWeights,
        norm: StepNorms,
    ) -> StepGradients:
        """Compute the gradients of `forward_step` at one timestep, as a pure function.

        A cell without this function is trained with the gradient that the backend derives.

        Args:
            gates: gates of `forward_step`.
            residuals: residuals of `forward_step`.
            old: the states before the step.
            new: the states after the step; at a masked timestep equal to `old`.
            d_states: gradients of the states after the step.
            weights: as for `forward_step`.
            norm: norms inside the step; `norm.backward(slot, a, dy)` returns the gradient of a.
        """
        raise NotImplementedError

    def has_custom_gradient(self) -> bool:
        """Return whether `backward_step` supports the options of the cell, such as activations."""
        return self.activation is tanh and getattr(self, "recurrent_activation", sigmoid) is sigmoid

    def activate(self, z: Tensor, kinds: Sequence[str]) -> Tensors:
        """Apply the activations of the cell to the pre-activations of its gates.

        Args:
            z: pre-activations, a list of gates, or all gates side by side.
            kinds: `GATE` for the recurrent activation or `CANDIDATE` for the activation.
        """
        gates = z if isinstance(z, list) else [z]
        gates = ops.split(z, len(kinds), axis=-1) if len(gates) < len(kinds) else gates
        # SimpleRNNCell has no `recurrent_activation`.
        of_kind = {GATE: getattr(self, "recurrent_activation", sigmoid), CANDIDATE: self.activation}
        return [of_kind[kind](gate) for kind, gate in zip(kinds, gates, strict=True)]

    def call(self, inputs: Tensor, states: Nest, training: bool = False) -> tuple[Tensor, Nest]:
        """Run one timestep of the cell; keras.layers.RNN calls this method.

        Args:
            inputs: (batch, features).
            states: the states before the step, each (batch, units). A cell with statistics per
                timestep has a timestep counter (batch, 2) as its last state.
            training: whether to apply dropout and to use batch statistics.

        Returns:
            The output (batch, units), and the states after the step.
        """
        given = keras.tree.flatten(states)
        sizes = keras.tree.flatten(self.state_size)
        if len(given) != len(sizes):
            raise ValueError(
                f"{type(self).__name__} takes {len(sizes)} states, of sizes {sizes}. Received "
                f"{len(given)} tensors. Pass all states that get_initial_state returns. The last "
                "state of a cell with statistics per timestep is a timestep counter."
            )
        counter = given.pop() if self.slots.count_steps else None

        def norm(slot: str, x: Tensor) -> Tensor:
            layer = self.slot_layers().get(slot)
            if layer is None:
                self.require_slot(slot)
                return x
            step = None if counter is None else read_counter(counter)
            return call_layer(layer, x, training, step=step)

        masks, weights = self.draw_masks(inputs, given, training), self.step_weights()
        of_step = {name: ops.cast(mask, inputs.dtype) for name, mask in masks.step.items()}
        weights = weights._replace(cell={**weights.cell, **of_step})
        with statistics_of_cell(self, training):
            x = self.project_inputs(weights, inputs, masks.inputs, norm)
            new = self.step(weights, x, given, masks.recurrent, self.by_gate(norm))
            changes = changes_at(self.zoneout_rates(), masks.changes)
            new = change_states(changes, new, given)
        if counter is not None:
            new = [*new, advance_counter(counter)]
        return new[0], new if isinstance(states, list | tuple) else new[0]

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Create the cell from a configuration of `get_config`."""
        return super().from_config(deserialize_norm(config))
