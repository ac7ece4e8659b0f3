"""Load weights of TensorFlow Addons' LayerNormLSTMCell."""

from collections.abc import Sequence

import keras

from keras_norm.compat.equations import recurrent_cell, require_layer_norms, require_options
from keras_norm.compat.named_weights import Assignment, assign_weights
from keras_norm.rnn.lstm import NormLSTMCell
from keras_norm.typing import TensorLike

__all__ = ["load_addons_weights"]

SOURCE = "tfa.rnn.LayerNormLSTMCell"
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
    if not isinstance(getattr(layer_or_cell, "cell", layer_or_cell), NormLSTMCell):
        raise TypeError(
            "layer_or_cell must be a NormLSTM or a NormLSTMCell. "
            f"Received: {type(layer_or_cell).__name__}."
        )
    cell = recurrent_cell(layer_or_cell)
    advice = (
        f"Create the layer as NormLSTM(units, norm=LayerNormalization(epsilon={epsilon}), "
        "normalize_carry=True), or pass the norm_epsilon of the old cell as epsilon"
    )
    norms = {"epsilon": epsilon, "center": True, "scale": True}
    require_layer_norms(cell, norms, SOURCE, advice)
    require_options(cell, {"normalize_carry": True}, SOURCE, advice)
    names = [name for name in ORDER if cell.use_bias or name != "bias"]
    if len(weights) != len(names):
        raise ValueError(
            f"{SOURCE} has {len(names)} weights: {', '.join(names)}. Received {len(weights)} "
            "weights. Pass the result of get_weights() of the old cell."
        )
    assignments = [
        Assignment(variable, {name: tuple(variable.shape)})
        for name, variable in zip(names, cell.weights, strict=True)
    ]
    assign_weights(assignments, dict(zip(names, weights, strict=True)), SOURCE)
