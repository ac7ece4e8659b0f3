"""The sequence form that is exported to TFLite: inference, with as little in the loop as can be.

TFLite runs the operations of a step one after the other, all of them at every step. LayerNorm of a
product needs no mean where the rows of the kernel have none, and its beta, where it is only added
to something, is part of the bias::

    LN(x W) = gamma * x V / sqrt(mean((x V)^2) + epsilon) + beta    V = W less the mean of each row

V, and all else that is made of weights alone, the converter computes once and for all.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.rms_norm import RMSNormalization
from keras_norm.ops.time_loop import LoopResult, time_loop
from keras_norm.rnn import norms
from keras_norm.rnn.cell import NormCell

# Slots of x W and of h U, in the order of the kernels' columns. (Those of the joint form are
# neither: each is of x W + h U.)
KERNEL_SLOTS = ("kernel_norm", "kernel_candidate_norm")
RECURRENT_SLOTS = ("recurrent_norm", "recurrent_candidate_norm")
# Slots whose output is added to the bias: a reset gate multiplies that of the candidate's h U.
ADDED_SLOTS = (*KERNEL_SLOTS, "recurrent_norm")


class RowNorm(NamedTuple):
    """LayerNorm or RMSNorm of rows, the last axis.

    ::

        y = gamma * x / sqrt(mean(x^2) * n / (n - ddof) + epsilon) + beta

    where x is first less its mean, if it is to be centred.
    """

    gamma: Any
    beta: Any
    epsilon: float
    outside: bool = False
    ddof: int = 0
    centre: bool = False

    def rows(self, steps: Any) -> tuple[Any, ...]:
        """Nothing depends on the timestep."""
        return ()

    def normalize(self, x: Any) -> Any:
        """Normalize x."""
        if self.centre:
            x = x - ops.mean(x, axis=-1, keepdims=True)
            x = x - ops.mean(x, axis=-1, keepdims=True)  # what the first mean lost in rounding
        n = x.shape[-1]
        variance = ops.mean(ops.square(x), axis=-1, keepdims=True) * (n / (n - self.ddof))
        if self.outside:
            scale = 1.0 / (ops.sqrt(variance) + self.epsilon)
        else:
            scale = ops.rsqrt(variance + self.epsilon)
        y = x * (scale if self.gamma is None else scale * self.gamma)
        return y if self.beta is None else y + self.beta


class MovingNorm(NamedTuple):
    """A batch normalization with its moving statistics.

    ::

        y = (x - mean) * scale + beta        scale = gamma / sqrt(variance + epsilon)
    """

    layer: Any
    beta: Any

    def rows(self, steps: Any) -> tuple[Any, ...]:
        """Mean and scale of given timesteps, each (time, width)."""
        layer = self.layer
        scale = ops.rsqrt(layer.moving_variance + layer.epsilon)
        if layer.gamma is not None:
            scale = scale * layer.gamma
        # What is computed of the weights alone, before a row is chosen, is computed once for all.
        with keras.StatelessScope([(layer.moving_variance, scale)]):
            return layer.statistics.at(steps, layer.compute_dtype)

    def normalize(self, x: Any, mean: Any, scale: Any) -> Any:
        """Normalize x with `rows` of its timesteps."""
        y = (x - mean) * scale
        return y if self.beta is None else y + self.beta


def exported_form(
    cell: NormCell, sequences: Any, states: list[Any], mask: Any, **loop_options: Any
) -> LoopResult:
    """Run a normalized cell over whole sequences, at inference and in float32.

    Args:
        cell: a built cell.
        sequences: (batch, time, features), in the order of the loop.
        states: initial states, each (batch, units).
        mask: bool (batch, time), True where a sequence is alive; or None.
        **loop_options: of `time_loop`.

    Returns:
        The loop's result; its outputs are (time, batch, units).
    """
    layers, weights = _replaced(cell)
    mask = None if mask is None else ops.swapaxes(mask, 0, 1)
    steps = ops.arange(ops.shape(sequences)[1])
    rows = {slot: norm.rows(steps) for slot, norm in layers.items() if _replaces(norm)}
    looped = [slot for slot in rows if slot not in KERNEL_SLOTS]

    def norm_all(slot: str, x: Any) -> Any:
        if slot in rows:
            return layers[slot].normalize(x, *[ops.expand_dims(row, 1) for row in rows[slot]])
        return norms.normalize_sequence(layers[slot], x, mask, False) if slot in layers else x

    with keras.StatelessScope(weights):
        # Time first: the inputs are narrower than their products.
        x = cell.project_inputs(ops.swapaxes(sequences, 0, 1), None, norm_all)

    def step(xs: list[Any], states: list[Any], alive: Any) -> tuple[list[Any], list[Any]]:
        x, *flat = xs
        left = iter(flat)
        now = {slot: [next(left) for _ in rows[slot]] for slot in looped}

        def norm(slot: str, x: Any) -> Any:
            if slot in now:
                return layers[slot].normalize(x, *now[slot])
            return norms.call_layer(layers[slot], x, training=False) if slot in layers else x

        with keras.StatelessScope(weights):
            return cell.step(x, states, None, norm), []

    return time_loop(
        step,
        [x, *[row for slot in looped for row in rows[slot]]],
        states,
        mask=None if mask is None else ops.expand_dims(mask, -1),
        **loop_options,
    )


def _replaced(cell: NormCell) -> tuple[dict[str, Any], list[tuple[Any, Any]]]:
    """The norms by slot, and pairs of a weight and what stands in its place with these norms."""
    layers = {slot: _replacement(layer) for slot, layer in cell.slot_layers().items()}
    if not layers:
        return {}, []
    centred = [s for s, norm in layers.items() if isinstance(norm, RowNorm) and norm.centre]
    weights, bias = [], cell.bias
    for kernel, slots in zip((cell.kernel, cell.recurrent_kernel), _slots(cell), strict=True):
        blocks, betas, start = [], [], 0
        for slot in slots:
            end = start + cell.slots.widths[slot]
            block, beta = kernel[:, start:end], ops.zeros([end - start], kernel.dtype)
            if slot in centred:
                block = block - ops.mean(block, axis=1, keepdims=True)
                layers[slot] = layers[slot]._replace(centre=False)
            norm: Any = layers.get(slot) if slot in ADDED_SLOTS and bias is not None else None
            if _replaces(norm) and norm.beta is not None:
                beta, layers[slot] = norm.beta, norm._replace(beta=None)
            blocks.append(block)
            betas.append(beta)
            start = end
        weights.append((kernel, ops.concatenate(blocks, axis=1)))
        bias = None if bias is None else bias + ops.concatenate(betas)
    return layers, weights if bias is None else [*weights, (cell.bias, bias)]


def _replaces(norm: Any) -> bool:
    return isinstance(norm, RowNorm | MovingNorm)


def _replacement(layer: Any) -> Any:
    """What computes the same as the layer in fewer operations, or the layer."""
    if type(layer) is LayerNormalization:
        outside = layer.epsilon_placement == "outside"
        return RowNorm(layer.gamma, layer.beta, layer.epsilon, outside, layer.ddof, centre=True)
    if type(layer) is RMSNormalization:
        return RowNorm(layer.scale, None, layer.epsilon)
    return MovingNorm(layer, layer.beta) if norms.keeps_statistics(layer) else layer


def _slots(cell: NormCell) -> list[list[str]]:
    """The slots of the columns of each kernel."""
    widths = cell.slots.widths
    return [
        [slot for slot in slots if slot in widths] or list(widths)
        for slots in (KERNEL_SLOTS, RECURRENT_SLOTS)
    ]
