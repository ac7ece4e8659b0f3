"""The entries of Flax' recurrent cells for the variables of Keras' cells.

The gates of Flax are i, f, g, o or r, z, n. The gates of Keras are i, f, c, o or z, r, h.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import keras
import numpy as np

from keras_norm.compat.equations import describe, require_options
from keras_norm.compat.gate_order import reorder
from keras_norm.compat.named_weights import Assignment
from keras_norm.typing import Array, TensorLike

Entries: TypeAlias = Mapping[str, TensorLike]

# Keras' cells, each with its cell of Flax.
CELLS = {
    keras.layers.LSTMCell: "LSTMCell",
    keras.layers.GRUCell: "GRUCell",
    keras.layers.SimpleRNNCell: "SimpleCell",
}


def cell_assignments(scope: str, cell: keras.layers.Layer, entries: Entries) -> list[Assignment]:
    """Return the assignments of a recurrent cell.

    Args:
        scope: the name of the module with a slash at its end, or "".
        cell: a built cell of a class in `CELLS`.
        entries: all entries, by name.

    Raises:
        ValueError: the cell has a norm, or another option that the Flax cell does not have.
    """
    keras_class, module = next(item for item in CELLS.items() if isinstance(cell, item[0]))
    norms = ", ".join(cell.slot_layers()) if hasattr(cell, "slot_layers") else ""
    if norms:
        raise ValueError(
            f"Flax' {module} has no norm. Received {describe(cell)} with norms in {norms}. Load "
            "the weights into a Keras layer, and then call keras_norm.convert(model, 'layer')."
        )
    options = {"use_bias": True, "reset_after": True}
    require_options(cell, options, f"Flax' {module}", "Create the layer with these arguments")
    if any(name.startswith(f"{scope}cell/") for name in entries):
        scope = f"{scope}cell/"
    if f"{scope}dense_h/kernel" in entries:
        return _joined_gates(scope, cell)
    if keras_class is keras.layers.LSTMCell:
        return _lstm_gates(scope, cell, "if_" if f"{scope}if_/kernel" in entries else "if")
    return _gru_gates(scope, cell) if keras_class is keras.layers.GRUCell else _simple(scope, cell)


def _concatenated(variable: keras.Variable, names: Sequence[str]) -> Assignment:
    """Return the assignment of a variable whose gates are separate entries of equal shapes."""
    *rows, columns = variable.shape
    shape = (*rows, columns // len(names))
    return Assignment(variable, dict.fromkeys(names, shape), _concatenate)


def _concatenate(*gates: Array) -> Array:
    return np.concatenate(gates, axis=-1)


def _lstm_gates(scope: str, cell: keras.layers.LSTMCell, forget: str) -> list[Assignment]:
    """Return the assignments of an LSTM with one kernel for each gate.

    `forget` is the name of the forget gate's kernel: "if", or "if_" in nnx.
    """
    of_inputs = [f"{scope}{gate}" for gate in ("ii", forget, "ig", "io")]
    of_h = [f"{scope}{gate}" for gate in ("hi", "hf", "hg", "ho")]
    return [
        _concatenated(cell.kernel, [f"{gate}/kernel" for gate in of_inputs]),
        _concatenated(cell.recurrent_kernel, [f"{gate}/kernel" for gate in of_h]),
        _concatenated(cell.bias, [f"{gate}/bias" for gate in of_h]),
    ]


def _gru_gates(scope: str, cell: keras.layers.GRUCell) -> list[Assignment]:
    """Return the assignments of a GRU with one kernel for each gate.

    Of the biases of U h, only the candidate's bias exists in Flax.
    """
    of_inputs = [f"{scope}{gate}" for gate in ("iz", "ir", "in")]
    of_h = [f"{scope}{gate}" for gate in ("hz", "hr", "hn")]
    biases = [f"{gate}/bias" for gate in (*of_inputs, of_h[-1])]

    def join_biases(z: Array, r: Array, n: Array, recurrent_n: Array) -> Array:
        zeros = np.zeros_like(n)
        return np.stack([_concatenate(z, r, n), _concatenate(zeros, zeros, recurrent_n)])

    return [
        _concatenated(cell.kernel, [f"{gate}/kernel" for gate in of_inputs]),
        _concatenated(cell.recurrent_kernel, [f"{gate}/kernel" for gate in of_h]),
        Assignment(cell.bias, dict.fromkeys(biases, (cell.units,)), join_biases),
    ]


def _simple(scope: str, cell: keras.layers.SimpleRNNCell) -> list[Assignment]:
    return [
        _concatenated(cell.kernel, [f"{scope}i/kernel"]),
        _concatenated(cell.recurrent_kernel, [f"{scope}h/kernel"]),
        _concatenated(cell.bias, [f"{scope}i/bias"]),
    ]


def _joined_gates(scope: str, cell: keras.layers.Layer) -> list[Assignment]:
    """Return the assignments of a nnx cell whose gates are the columns of one kernel.

    The bias of an LSTM belongs to U h, and the bias of a GRU or a simple cell to W x.
    """
    of_inputs, of_h = f"{scope}dense_i", f"{scope}dense_h"
    is_gru = isinstance(cell, keras.layers.GRUCell)
    bias = of_h if isinstance(cell, keras.layers.LSTMCell) else of_inputs

    def order_gates(gates: Array) -> Array:
        """Change the order r, z, n of a GRU to z, r, n."""
        return reorder(gates, (1, 0, 2), axis=-1) if is_gru else gates

    def order_biases(biases: Array) -> Array:
        ordered = order_gates(biases)
        return np.stack([ordered, np.zeros_like(ordered)]) if is_gru else ordered

    columns = cell.kernel.shape[-1]
    return [
        Assignment(cell.kernel, {f"{of_inputs}/kernel": tuple(cell.kernel.shape)}, order_gates),
        Assignment(cell.recurrent_kernel, {f"{of_h}/kernel": (cell.units, columns)}, order_gates),
        Assignment(cell.bias, {f"{bias}/bias": (columns,)}, order_biases),
    ]
