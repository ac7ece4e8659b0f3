"""Types for one timestep of a cell, such as `StepResult`, and for a recurrence with its norms."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import keras
from keras import ops

from keras_norm.typing import Nest, Tensor, Tensors

# A subclass of a norm layer may override these methods: they do not change how it normalizes. If it
# overrides another method, the `step_norm` of its base class is not used.
SETUP_METHODS = ("build", "get_config", "from_config")

# A dict from names to tensors, or to nested lists and dicts of tensors.
Tree: TypeAlias = dict[str, Any]
# The activation of a gate is `recurrent_activation`, by default sigmoid. The activation of a
# candidate is `activation`, by default tanh.
GATE = "gate"
CANDIDATE = "candidate"

# A function (name, tensor) -> tensor: it applies the norm with this name to the tensor.
ApplyNorm: TypeAlias = Callable[[str, Tensor], Tensor]
# A function (pre-activations, `GATE` or `CANDIDATE` for each gate) -> activated gates.
Activate: TypeAlias = Callable[[Tensor, Sequence[str]], Tensors]
# The dict that a step reads: weights other than kernels and biases, options of the cell, and masks
# of the timestep.
CellWeights: TypeAlias = dict[str, Any]

# A dict from names of weights, other than kernels and biases, to gradients. A gradient is an array
# with one row for each sample. A matrix W with the product a = x W has the pair (x, da) as its
# gradient.
WeightGradients: TypeAlias = dict[str, Tensor | tuple[Tensor, Tensor]]


class Weights(NamedTuple):
    """Weights that a cell uses in one timestep: kernel W, recurrent kernel U, and the biases.

    `bias` is added to the normalized x W, and `recurrent_bias` to the normalized h U. A bias is
    None if the cell does not have it. `cell` has further tensors by name: weights of the cell, and
    the masks of this timestep.
    """

    kernel: Tensor
    recurrent_kernel: Tensor
    bias: Tensor | None
    recurrent_bias: Tensor | None = None
    cell: CellWeights = {}  # noqa: RUF012, because no code changes this dict

    def cast(self, dtype: str) -> "Weights":
        """Cast all weights to `dtype`."""

        def cast(weight: Tensor | None) -> Tensor | None:
            return None if weight is None else ops.cast(weight, dtype)

        kernel, recurrent_kernel, bias, recurrent_bias = map(cast, self[:-1])
        of_cell = {name: cast(weight) for name, weight in self.cell.items()}
        return Weights(kernel, recurrent_kernel, bias, recurrent_bias, of_cell)


class StepResult(NamedTuple):
    """Result of a cell's `forward_step`: new states, and arrays that `backward_step` reads.

    Args:
        states: the new states; the first one is the output.
        gates: arrays (batch, units), as many as x W has columns of `units`. They replace x W in
            memory, and the backward step reads them.
        residuals: further arrays that the backward step reads.
    """

    states: Tensors
    gates: Tensors
    residuals: Tensors


class StepGradients(NamedTuple):
    """Result of a cell's `backward_step`: gradients of x W, h U, the states and the weights.

    Args:
        x: gradient of each group of the normalized x W.
        u: gradient of each group of the normalized h U. If it is the same object as in `x`, the
            array is stored once.
        states: gradients of the states before the step, without those through h U; None for zeros.
        weights: gradients of the cell's further weights, by name: for each sample (batch, ...), or
            for a matrix W the pair (x, da) of its product a = x W.
    """

    x: Tensors
    u: Tensors
    states: list[Tensor | None]
    weights: WeightGradients


class Norm(Protocol):
    """A norm inside a recurrence: a hashable object whose methods are pure functions.

    `SampleNorm` and `TimestepNorm` implement it. The tensors a, y and their gradients are
    (..., batch, features). A layer returns its norm from a method
    `step_norm(training)`.

    Attributes:
        per_batch: whether the statistics are over a batch, (..., 1, features).
    """

    per_batch: ClassVar[bool]

    def statistics(self, a: Tensor, unmasked: Tensor | None, moving: Sequence[Tensor]) -> Tensors:
        """Compute the statistics with which `apply` normalizes `a`.

        Args:
            a: tensor to normalize.
            unmasked: bool (..., batch, 1), or None.
            moving: moving mean and r of a `TimestepNorm`, else empty.
        """

    def apply(self, a: Tensor, statistics: Tensors, gamma: Tensor | None) -> Tensor:
        """Normalize `a` with its statistics, and multiply by gamma."""

    def backward(
        self,
        a: Tensor,
        dy: Tensor,
        statistics: Tensors,
        gamma: Tensor | None,
        unmasked: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of `a`, of gamma and of beta.

        The gradients of gamma and beta are per sample, (..., batch, features), or per batch,
        (..., 1, features), if `per_batch`.
        """


def step_norm(layer: keras.layers.Layer, training: bool) -> Norm | None:
    """Return `layer.step_norm(training)`; None if a subclass may normalize differently.

    Returns:
        None for a layer without this method. None also for a subclass that overrides a method that
        is not in `SETUP_METHODS`: any method can belong to the computation.
    """
    cls = type(layer)
    k = next((k for k, c in enumerate(cls.__mro__) if "step_norm" in vars(c)), None)
    if k is None:
        return None
    owner = cls.__mro__[k]
    overridden = {name for base in cls.__mro__[:k] for name in vars(base)} - {*SETUP_METHODS}
    for name in overridden:
        if callable(getattr(owner, name, None)) and not name.startswith("__"):
            return None
    norm: Norm = layer.step_norm(training)
    return norm


class FusedNorm:
    """Base class of a `Norm` that computes output and statistics in one operation."""

    def normalize(
        self, a: Tensor, gamma: Tensor | None, beta: Tensor | None, moving: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensors]:
        """Return the normalized `a` times gamma plus beta, and the statistics of `a`.

        `moving` has the moving mean and r of a `TimestepNorm`.
        """
        raise NotImplementedError

    def statistics(
        self, a: Tensor, unmasked: Tensor | None = None, moving: Sequence[Tensor] = ()
    ) -> Tensors:
        """Compute the statistics of `a`; ignore the argument `unmasked`."""
        return self.normalize(a, None, None, moving)[1]


class Slot(NamedTuple):
    """The position of a norm in a cell, such as "kernel_norm": name, width, and norm or None."""

    name: str
    width: int
    norm: Norm | None


class Recurrence(NamedTuple):
    """The static description of a recurrence: its cell class, and its norms with their names.

    A recurrence reads two trees of tensors, from which absent entries are left out:

    - weights: "kernel", "recurrent_kernel", "bias" of x W and "recurrent_bias" of h U; "gamma" by
      slot; "beta" by inner slot; and "cell", further weights of the cell by name.
    - constants: "unmasked" and "resets", bool (time, batch, 1); "changes", in training bool
      (time, batch, units) for each state with zoneout; "step", arrays (time, batch, ...) by the
      names that `forward_step` reads; "dropout", a list of masks of h
      (batch, units), which may be empty; and "moving", moving mean and r by slot with a
      `TimestepNorm`, each (time, 1, features), or (time, batch, features) with "resets". With
      "unmasked" a learning slot has bool (time, 1, 1) too: whether there are enough sequences.

    Args:
        cell: a class with the functions `forward_step` and `backward_step`.
        kernel: slots of the columns of x W.
        recurrent: slots of the columns of h U.
        inner: slots inside the step, such as the norm of the cell state.
        joint: slots of the columns of x W + h U; empty in the separate form. In the joint form
            `kernel` and `recurrent` have no norms, and "bias" is added after the norms.
        groups: widths of the groups of h U that `forward_step` reads.
        zoneout: probability of each state that a unit keeps its value at a timestep; in training
            whether it has zoneout.
        options: options of the cell's equation, as pairs (name, value).
        input_masks: number of dropout masks of x: 0, 1, or one for each gate.
        recurrent_masks: number of dropout masks of h.
    """

    cell: Any
    kernel: tuple[Slot, ...]
    recurrent: tuple[Slot, ...]
    inner: tuple[Slot, ...]
    joint: tuple[Slot, ...] = ()
    groups: tuple[int, ...] = ()
    zoneout: tuple[float, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    input_masks: int = 0
    recurrent_masks: int = 0

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All slots (positions of norms): of x W, h U and x W + h U, and inside the step."""
        return (*self.kernel, *self.recurrent, *self.inner, *self.joint)

    @property
    def norms(self) -> dict[str, Any]:
        """A dict from the name of each slot to its norm, or to None."""
        return {slot.name: slot.norm for slot in self.slots}

    @property
    def learning(self) -> list[str]:
        """Names of the norms that compute statistics of the batch, such as "kernel_norm"."""
        return [name for name, norm in self.norms.items() if getattr(norm, "learning", False)]

    def read_by_step(self, weights: Tree, constants: Tree) -> CellWeights:
        """Merge the weights in "cell", the options, and the masks of a timestep to one dict."""
        return {**weights["cell"], **dict(self.options), **constants.get("step", {})}

    def sharing(self, constants: Tree) -> list[Slot]:
        """Return the slots whose batch norm may use statistics of an earlier timestep."""
        return [s for s in self.slots if len(constants["moving"].get(s.name, ())) > 2]


def map_tree(function: Callable[..., Nest], *trees: Nest) -> Nest:
    """Apply a function to the leaves of nested dicts and lists, like `keras.tree.map_structure`.

    PyTorch calls it at every timestep, and `keras.tree` takes ten times as long there.
    """
    first = trees[0]
    if isinstance(first, dict):
        return {name: map_tree(function, *(tree[name] for tree in trees)) for name in first}
    if isinstance(first, list):
        return [map_tree(function, *leaves) for leaves in zip(*trees, strict=True)]
    return function(*trees)
