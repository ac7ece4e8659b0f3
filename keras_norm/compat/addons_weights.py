"""Load weights of models with TensorFlow Addons' LayerNormLSTMCell."""

import os
import pathlib
from collections.abc import Sequence

import keras
import numpy as np

from keras_norm.compat.equations import (
    describe,
    require_built,
    require_carried_norms,
    require_known_class,
)
from keras_norm.compat.keras2_weights import HDF5, NamedWeight, read_keras2_weights
from keras_norm.compat.named_weights import Assignment, assign_weights
from keras_norm.named_layers import named_layers
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.lstm import NormLSTMCell
from keras_norm.typing import TensorLike

SOURCE = "tfa.rnn.LayerNormLSTMCell"


# Annotate `layer` as keras.layers.Layer: for a type checker, the user's keras_norm.NormLSTM (from
# the stub __init__.pyi) and NormLSTM imported here would be two different classes.
def load_addons_weights(
    layer: keras.layers.Layer,
    weights: Sequence[TensorLike] | str | os.PathLike[str],
    epsilon: float = 1e-3,
) -> None:
    """Load the weights of a `tfa.rnn.LayerNormLSTMCell`, or of a layer or model that contains it.

    TensorFlow Addons' cell carries the normalized c to the next timestep, and its default epsilon
    is 1e-3. So the equivalent layer is
    `NormLSTM(units, norm=LayerNormalization(epsilon=1e-3), normalize_carry=True)`. Create it for
    every `RNN(LayerNormLSTMCell(units))`, also inside `Bidirectional`, and its cell for every cell
    of a list. Other layers are the same as in the old model.

    Args:
        layer: a built model with the layers of the old model, or one layer or cell.
        weights: result of `get_weights()` of the old model, layer or cell; or its SavedModel
            directory, TensorFlow checkpoint or HDF5 file, or a .npz file of
            `numpy.savez(path, *old.get_weights())`.
        epsilon: `norm_epsilon` of the old cells, which is not among the weights.

    Raises:
        TypeError: the layer has no `NormLSTMCell`, or has a cell of a custom class.
        ValueError: a cell has other equations than the old cell, or is not built; the number, the
            names or the shapes of the weights do not fit; a file is damaged, or of another format.
            The layer keeps its weights.

    Example:
        >>> old = LayerNormLSTM(4)
        >>> old.build((None, 5, 3))
        >>> new = NormLSTM(4, norm=LayerNormalization(epsilon=1e-3), normalize_carry=True)
        >>> new.build((None, 5, 3))
        >>> load_addons_weights(new, old.get_weights())

    Reference:
        TensorFlow Addons 0.23, tensorflow_addons/rnn/layer_norm_lstm_cell.py.
    """
    require_built(layer)
    _require_same_equations(layer, epsilon)
    if isinstance(weights, str | os.PathLike):
        is_hdf5 = pathlib.Path(weights).suffix.lower() in HDF5
        variables, old = _list_variables(layer, is_hdf5), read_keras2_weights(weights)
    else:
        variables, old = _list_variables(layer), [NamedWeight("", w) for w in weights]
    _require_same_order(old, variables, layer)
    names = [weight.name or f"weights[{k}]" for k, weight in enumerate(old)]
    # In Keras 2, two layers may have the same name: add the weight's index to a repeated name.
    names = [f"{name} ({k})" if names.count(name) > 1 else name for k, name in enumerate(names)]
    entries = {name: weight.value for name, weight in zip(names, old, strict=True)}
    assignments = map(Assignment.of_entry, variables, names)
    assign_weights(list(assignments), entries, "TensorFlow Addons")


def _require_same_equations(layer: keras.layers.Layer, epsilon: float) -> None:
    """Raise an error if a cell does not compute the equations of TensorFlow Addons' cell."""
    inner = [layer, *(sublayer for _, sublayer in named_layers(layer))]
    cells = [cell for cell in inner if isinstance(cell, NormCell)]
    lstms = [cell for cell in cells if isinstance(cell, NormLSTMCell)]
    if not lstms or any(cell.slot_layers() for cell in cells if cell not in lstms):
        received = [cell for cell in cells if cell not in lstms] or [layer]
        raise TypeError(
            "The layer must contain a NormLSTM or a NormLSTMCell, and no other cell with norms. "
            f"Received: {describe(received[0])}."
        )
    for cell in lstms:
        require_known_class(cell)
        name = "the norm_epsilon of the old cell"
        require_carried_norms(cell, epsilon, {}, SOURCE, name, "load_addons_weights")


def _list_variables(layer: keras.layers.Layer, is_hdf5: bool = False) -> list[keras.Variable]:
    """List the weights of a layer in the order of get_weights() of Keras 2.

    In an HDF5 file, each layer of a model has its trainable weights first. This order differs only
    for a nested model with batch normalization.
    """
    variables = list(layer.weights)
    if is_hdf5 and isinstance(layer, keras.Model):
        variables = [
            variable
            for inner in layer.layers
            for variable in (*inner.trainable_weights, *inner.non_trainable_weights)
        ]
    return [variable for variable in variables if variable.name != "update_count"]


def _require_same_order(
    old: Sequence[NamedWeight], variables: Sequence[keras.Variable], layer: keras.layers.Layer
) -> None:
    """Raise a ValueError if the old and the new weights differ in their number or their names."""
    pairs = list(zip(old, variables, strict=False))
    words = [weight.name.rpartition("/")[2] or variable.name for weight, variable in pairs]
    same = [word == variable.name for word, (_, variable) in zip(words, pairs, strict=True)]
    if len(old) == len(variables) and all(same):
        return
    shapes = [np.shape(weight.value) == tuple(variable.shape) for weight, variable in pairs]
    first = [a and b for a, b in zip(same, shapes, strict=True)]
    k = [*first, False].index(False)
    of_old = f"{old[k].name} {np.shape(old[k].value)}".strip() if k < len(old) else "none"
    of_new = f"{variables[k].path} {tuple(variables[k].shape)}" if k < len(variables) else "none"
    raise ValueError(
        f"The old model has {len(old)} weights, and {describe(layer)} has {len(variables)}. Weight "
        f"{k} is the first that differs: old {of_old}, new {of_new}. Build the new model with all "
        "layers of the old model, in the same order. Pass all weights of the old model."
    )
