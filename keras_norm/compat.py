"""Load weights of TensorFlow Addons' LayerNormLSTMCell."""

from collections.abc import Sequence

import keras
import numpy as np

from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.rnn.lstm import NormLSTM, NormLSTMCell
from keras_norm.typing import TensorLike

__all__ = ["load_addons_weights"]

EQUATION = ("epsilon", "epsilon_placement", "ddof", "center", "scale")
ORDER = (
    "kernel",
    "recurrent_kernel",
    "bias",
    *(f"{slot}/{w}" for slot in NormLSTMCell.SLOTS for w in ("gamma", "beta")),
)


# The argument `layer_or_cell` has the type keras.layers.Layer: for a type checker, NormLSTM of the
# stub __init__.pyi is not the class NormLSTM of keras_norm.rnn.lstm.
def load_addons_weights(
    layer_or_cell: keras.layers.Layer, weights: Sequence[TensorLike], epsilon: float = 1e-3
) -> None:
    """Load the weights of a `tfa.rnn.LayerNormLSTMCell` into an equivalent `NormLSTM`.

    TensorFlow Addons' cell carries the normalized c to the next timestep, and its default epsilon
    is 1e-3. So the equivalent layer is
    `NormLSTM(units, norm=LayerNormalization(epsilon=1e-3), normalize_carry=True)`.

    Args:
        layer_or_cell: a built `NormLSTM` or `NormLSTMCell` with `LayerNormalization` in every slot
            and `normalize_carry=True`.
        weights: result of `get_weights()` of the old cell, or of the RNN layer around it: kernel,
            recurrent_kernel, bias, then gamma and beta of kernel_norm, recurrent_norm, state_norm.
        epsilon: the old cell's `norm_epsilon`, which is not among its weights.

    Raises:
        TypeError: `layer_or_cell` is neither a `NormLSTM` nor a `NormLSTMCell`.
        ValueError: `layer_or_cell` has other equations than the old cell, or is not built; the
            number or the shapes of the weights do not fit.

    Example:
    >>> old = LayerNormLSTM(4)
    >>> old.build((None, 5, 3))
    >>> new = NormLSTM(4, norm=LayerNormalization(epsilon=1e-3), normalize_carry=True)
    >>> new.build((None, 5, 3))
    >>> load_addons_weights(new, old.get_weights())
    """
    cell = layer_or_cell.cell if isinstance(layer_or_cell, NormLSTM) else layer_or_cell
    if not isinstance(cell, NormLSTMCell):
        raise TypeError(
            "layer_or_cell must be a NormLSTM or a NormLSTMCell. "
            f"Received: {type(layer_or_cell).__name__}."
        )
    _require_same_equations(cell, epsilon)
    if not cell.built:
        raise ValueError(
            f"{type(layer_or_cell).__name__} '{layer_or_cell.name}' is not built, so it has no "
            "weights. Build it, or call it once, before you load weights."
        )
    names = [name for name in ORDER if cell.use_bias or name != "bias"]
    if len(weights) != len(names):
        raise ValueError(
            f"tfa.rnn.LayerNormLSTMCell has {len(names)} weights: {', '.join(names)}. "
            f"Received {len(weights)} weights. Pass the result of get_weights() of the old cell."
        )
    for name, variable, value in zip(names, cell.weights, weights, strict=True):
        if tuple(variable.shape) != np.shape(value):
            raise ValueError(
                f"The weight {name} must have the shape {tuple(variable.shape)}. Received shape "
                f"{np.shape(value)}. Give the layer the units and features of the old cell."
            )
    for variable, value in zip(cell.weights, weights, strict=True):
        variable.assign(value)


def _require_same_equations(cell: NormLSTMCell, epsilon: float) -> None:
    wanted = LayerNormalization(epsilon=epsilon).get_config()
    advice = (
        f"Create the layer as NormLSTM(units, norm=LayerNormalization(epsilon={epsilon}), "
        "normalize_carry=True)"
    )
    for slot in NormLSTMCell.SLOTS:
        cls, config = cell.slots.templates.get(slot, (object, {}))
        if not (issubclass(cls, LayerNormalization) and cell.normalize_carry):
            raise ValueError(
                "The layer does not compute the equations of tfa.rnn.LayerNormLSTMCell, which has "
                "a LayerNormalization in every slot and carries the normalized state. "
                f"{advice}."
            )
        different = [key for key in EQUATION if config[key] != wanted[key]]
        if different:
            raise ValueError(
                "The norms of a tfa.rnn.LayerNormLSTMCell have "
                f"{', '.join(f'{key}={wanted[key]!r}' for key in different)}. Received a layer "
                f"whose {slot} has {', '.join(f'{key}={config[key]!r}' for key in different)}. "
                f"{advice}, or pass the norm_epsilon of the old cell as epsilon."
            )
