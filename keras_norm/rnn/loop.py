"""The one loop over time, as inference runs it, and training where `gradient` cannot.

What needs no state stands before the loop, for all timesteps at once, and so does all that is made
of weights alone. Rows of zero mean, which kernels less the mean of each of their rows give, need no
mean taken off; a bias that is only added takes the beta of a norm with it::

    LN(x W) = gamma * x V / sqrt(mean((x V)^2) + epsilon) + beta    V = W less the mean of each row

The loop computes in float32 or wider, whatever the policy.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.rms_norm import RMSNormalization
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.ops.moments import statistics_dtype
from keras_norm.ops.scan import scan
from keras_norm.rnn import norms
from keras_norm.rnn.cell import NormCell, Weights

# Slots of x W and of h U, in the order of the kernels' columns. (Those of the joint form are
# neither: each is of x W + h U.)
KERNEL_SLOTS = ("kernel_norm", "kernel_candidate_norm")
RECURRENT_SLOTS = ("recurrent_norm", "recurrent_candidate_norm")
# Slots whose output is added to the bias: a reset gate multiplies that of the candidate's h U.
ADDED_SLOTS = (*KERNEL_SLOTS, "recurrent_norm")


class FoldedNorm(NamedTuple):
    """LayerNorm or RMSNorm of rows, the last axis.

    ::

        y = gamma * x / sqrt(mean(x^2) * n / (n - ddof) + epsilon) + beta

    where x is first less its mean, if it is to be centred. Nothing depends on the timestep.
    """

    gamma: Any
    beta: Any
    epsilon: float
    outside: bool = False
    ddof: int = 0
    centre: bool = False
    rows: tuple[Any, ...] = ()

    def normalize(self, x: Any, alive: Any) -> tuple[Any, tuple[Any, ...]]:
        """Normalize x."""
        if self.centre:
            # A second mean, of what rounding left, costs more than it is worth: no row of a product
            # or of states has a mean of many deviations.
            x = x - ops.mean(x, axis=-1, keepdims=True)
        n = x.shape[-1]
        # A product, where a square would do: TFLite computes none in 16 bits.
        variance = ops.mean(x * x, axis=-1, keepdims=True)
        if self.ddof:
            variance = variance * (n / (n - self.ddof))
        if self.outside:
            # The root's slope at 0 is infinite.
            root = ops.sqrt(ops.where(variance > 0, variance, 1.0))
            scale = 1.0 / (ops.where(variance > 0, root, 0.0) + self.epsilon)
        else:
            scale = ops.rsqrt(variance + self.epsilon)
        y = x * (scale if self.gamma is None else scale * self.gamma)
        return y if self.beta is None else y + self.beta, ()


class MovingNorm(NamedTuple):
    """A batch normalization with its moving statistics.

    ::

        y = (x - mean) * scale + beta        scale = gamma / sqrt(variance + epsilon)

    `rows` are mean and scale of every timestep, each (time, width).
    """

    rows: tuple[Any, ...]
    beta: Any

    def normalize(self, x: Any, alive: Any, mean: Any, scale: Any) -> tuple[Any, tuple[Any, ...]]:
        """Normalize x with the rows of its timestep."""
        y = (x - mean) * scale
        return y if self.beta is None else y + self.beta, ()


class LearningNorm(NamedTuple):
    """A batch normalization that learns: with the statistics of the batch at each timestep.

    `rows` are moving mean and variance, for timesteps at which too few sequences are alive.
    """

    rows: tuple[Any, ...]
    layer: Any

    def normalize(self, x: Any, alive: Any, *moving: Any) -> tuple[Any, tuple[Any, ...]]:
        """Normalize (..., batch, width), and give what the batch tells the moving statistics."""
        rank = len(x.shape)
        # One sequence alone has no variance, whatever the layer's own rule.
        y, batch = self.layer.normalize_batch(x, rank - 1, [rank - 2], moving, alive, min_count=2)
        return y, tuple(ops.squeeze(s, axis=rank - 2) for s in batch)


class OtherNorm(NamedTuple):
    """Any other layer, as it is."""

    layer: Any
    training: bool
    rows: tuple[Any, ...] = ()

    def normalize(self, x: Any, alive: Any) -> tuple[Any, tuple[Any, ...]]:
        """Call the layer; of all timesteps as of so many samples.

        (A BatchNormalization so takes one statistic over all timesteps, where a cell in
        keras.layers.RNN takes one at each.)
        """
        if len(x.shape) == 2:
            return ops.cast(norms.call_layer(self.layer, x, self.training), x.dtype), ()
        mask = None if alive is None else ops.reshape(alive, (-1,))
        flat = ops.reshape(x, (-1, x.shape[-1]))
        y = norms.call_layer(self.layer, flat, self.training, mask)
        return ops.cast(ops.reshape(y, ops.shape(x)), x.dtype), ()


def run(
    cell: NormCell,
    sequences: Any,
    states: list[Any],
    mask: Any,
    training: bool,
    dropout_masks: tuple[list[Any], list[Any]],
    *,
    return_sequences: bool,
    unroll: bool = False,
    centre: bool = True,
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Run a cell over sequences.

    Args:
        cell: a built cell.
        sequences: (batch, time, features), in the order of the loop.
        states: initial states, each (batch, units).
        mask: bool (batch, time), True where a sequence is alive; or None.
        training: whether dropout and batch statistics are on.
        dropout_masks: of the inputs and of the first state, as `NormCell.dropout_masks` gives them.
        return_sequences: whether to give the first state at every timestep.
        unroll: write the steps one after the other.
        centre: whether kernels are centred, which pays where there are timesteps to share them.

    Returns:
        The first state after every timestep (batch, time, units), or None; the last states; and by
        slot the statistics (time, features) of the batch, for its moving ones to move towards.
    """
    dtype = statistics_dtype(cell.compute_dtype)
    x = ops.cast(ops.swapaxes(sequences, 0, 1), dtype)  # time first: narrower than its product
    steps = ops.arange(ops.shape(x)[0])
    weights, layers = _prepared(cell, dtype, steps, training, centre and not training)
    alive = None if mask is None else ops.expand_dims(ops.swapaxes(mask, 0, 1), -1)
    input_masks, recurrent_masks = ([ops.cast(m, dtype) for m in masks] for masks in dropout_masks)
    learned: dict[str, Any] = {}

    def norm_all(slot: str, x: Any) -> Any:
        if slot not in layers:
            return x
        now = [ops.expand_dims(row, 1) for row in layers[slot].rows]
        y, learned[slot] = layers[slot].normalize(x, alive, *now)
        return y

    x = cell.project_inputs(weights, x, input_masks, norm_all)
    looped = [slot for slot in layers if slot not in KERNEL_SLOTS]
    learning = [slot for slot in looped if isinstance(layers[slot], LearningNorm)]

    def step(states: list[Any], xs: list[Any]) -> tuple[list[Any], list[Any]]:
        left = iter(xs)
        x, alive_now = next(left), None if alive is None else next(left)
        now = {slot: [next(left) for _ in layers[slot].rows] for slot in looped}
        batch: dict[str, Any] = {}

        def norm(slot: str, x: Any) -> Any:
            if slot not in layers:
                return x
            y, batch[slot] = layers[slot].normalize(x, alive_now, *now[slot])
            return y

        new = cell.step(weights, x, states, recurrent_masks, norm)
        if alive_now is not None:
            new = [ops.where(alive_now, n, o) for n, o in zip(new, states, strict=True)]
        return new, [*new[:return_sequences], *(s for slot in learning for s in batch[slot])]

    states = [ops.cast(state, dtype) for state in states]
    widths = [cell.slots.widths[slot] for slot in learning]
    like = [s for n in widths for s in (*[ops.zeros([n], dtype)] * 2, ops.zeros([1], dtype))]
    rows = [row for slot in looped for row in layers[slot].rows]
    states, ys = scan(
        step,
        [x, *([] if alive is None else [alive]), *rows],
        states,
        [*states[:return_sequences], *like],
        unroll=unroll,
        training=training,
        independent_rows=not any(isinstance(norm, OtherNorm) for norm in layers.values()),
    )
    path = ops.swapaxes(ys.pop(0), 0, 1) if return_sequences else None
    for i, slot in enumerate(learning):
        learned[slot] = ys[3 * i : 3 * i + 3]
    return path, states, {slot: batch for slot, batch in learned.items() if batch}


def _prepared(
    cell: NormCell, dtype: str, steps: Any, training: bool, centre: bool
) -> tuple[Weights, dict[str, Any]]:
    """The weights of a step, and the norms by slot, with what can be done before the loop done."""
    layers = {
        slot: _norm(layer, slot, dtype, steps, training)
        for slot, layer in cell.slot_layers().items()
    }
    weights = Weights(*(None if w is None else ops.cast(w, dtype) for w in cell.step_weights()))
    centred = [s for s, norm in layers.items() if centre and getattr(norm, "centre", False)]
    kernels, bias = [], weights.bias
    for kernel, slots in zip(weights[:2], slots_of(cell), strict=True):
        blocks, betas, start = [], [], 0
        for slot in slots:
            end = start + cell.slots.widths[slot]
            block, beta = kernel[:, start:end], ops.zeros([end - start], dtype)
            if slot in centred:
                block = block - ops.mean(block, axis=1, keepdims=True)
                layers[slot] = layers[slot]._replace(centre=False)
            norm: Any = layers.get(slot) if slot in ADDED_SLOTS and bias is not None else None
            if isinstance(norm, FoldedNorm | MovingNorm) and norm.beta is not None:
                beta, layers[slot] = norm.beta, norm._replace(beta=None)
            blocks.append(block)
            betas.append(beta)
            start = end
        kernels.append(ops.concatenate(blocks, axis=1) if layers else kernel)
        bias = bias if bias is None or not layers else bias + ops.concatenate(betas)
    return weights._replace(kernel=kernels[0], recurrent_kernel=kernels[1], bias=bias), layers


def _norm(layer: Any, slot: str, dtype: str, steps: Any, training: bool) -> Any:
    """What computes the same as a slot's layer."""

    def weight(name: str) -> Any:
        value = getattr(layer, name)
        return None if value is None else ops.cast(value, dtype)

    if type(layer) is LayerNormalization:
        outside = layer.epsilon_placement == "outside"
        affine = weight("gamma"), weight("beta")
        return FoldedNorm(*affine, layer.epsilon, outside, layer.ddof, centre=True)
    if type(layer) is RMSNormalization:
        return FoldedNorm(weight("scale"), None, layer.epsilon)
    if not isinstance(layer, StatisticsNormalization):
        return OtherNorm(layer, training)
    learning = training and layer.trainable
    if learning and slot in KERNEL_SLOTS and not isinstance(layer, TimestepBatchNormalization):
        return OtherNorm(layer, training)  # one statistic over all timesteps
    mean, variance = layer.statistics_at(steps, dtype)
    if learning:
        return LearningNorm((mean, variance), layer)
    gamma, scale = weight("gamma"), ops.rsqrt(variance + layer.epsilon)
    return MovingNorm((mean, scale if gamma is None else scale * gamma), weight("beta"))


def slots_of(cell: NormCell) -> list[list[str]]:
    """The slots of the columns of W, and of U."""
    widths = cell.slots.widths
    return [
        [slot for slot in slots if slot in widths] or list(widths)
        for slots in (KERNEL_SLOTS, RECURRENT_SLOTS)
    ]
