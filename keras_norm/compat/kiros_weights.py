"""Load weights that the code of the paper "Layer Normalization" wrote."""

import functools
from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

import keras
import numpy as np

from keras_norm.compat.biased_layer_norm import BiasedLayerNormalization
from keras_norm.compat.equations import (
    describe,
    recurrent_cell,
    require_layer_norms,
    require_options,
)
from keras_norm.compat.gate_order import reorder
from keras_norm.compat.named_weights import (
    Assignment,
    Sizes,
    Weights,
    assign_weights,
    named_entries,
)
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.gru import NormGRUCell
from keras_norm.rnn.lstm import NormLSTMCell
from keras_norm.rnn.slots import KERNEL_SLOTS
from keras_norm.typing import Array

__all__ = ["load_kiros_weights"]

SOURCE = "Kiros' layer-norm"
EPSILON = 1e-5
Value: TypeAlias = Callable[..., Array]


def load_kiros_weights(layer: keras.layers.Layer, weights: Weights, prefix: str) -> None:
    """Load an LSTM or a GRU of Kiros' `layer-norm`, with or without norms.

    ::

        LN-LSTM:  i, f, o, c = LN(W x + b) + LN(U h) + b
        LN-GRU:   r, u = s(LN(W x + b) + LN(U h))
                  n = tanh(LN(Wx x + bx) + r * LN(Ux h))

    The bias of W x is inside its norm, which therefore is a `BiasedLayerNormalization`. An LSTM
    adds its bias twice.

    Args:
        layer: a built `NormLSTM` or `NormGRU`, or its cell, with `BiasedLayerNormalization` in the
            kernel norms, `LayerNormalization` in the other slots, and epsilon=1e-5; or a Keras LSTM
            or GRU for the layers without norms.
        weights: arrays by name, or the .npz file, such as that of skip-thoughts.
        prefix: beginning of the names of the layer's arrays, such as `encoder_`. Other arrays are
            ignored.

    Raises:
        TypeError: the layer is no LSTM and no GRU, or is of a custom class.
        ValueError: the layer has other equations or is not built; an array is missing, unused or of
            another shape; the file is damaged, or contains a pickle. The layer keeps its weights.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> shapes = {"W": (3, 8), "U": (4, 8), "b": (8,), "Wx": (3, 4), "Ux": (4, 4), "bx": (4,)}
        >>> weights = {f"encoder_{name}": rng.normal(size=shape) for name, shape in shapes.items()}
        >>> layer = keras.layers.GRU(4)
        >>> layer.build((None, 5, 3))
        >>> load_kiros_weights(layer, weights, prefix="encoder_")

    Reference:
        github.com/ryankiros/layer-norm, layers.py.
    """
    classes = (keras.layers.LSTMCell, keras.layers.GRUCell)
    if not isinstance(getattr(layer, "cell", layer), classes):
        raise TypeError(
            "layer must be a NormLSTM, a NormGRU, a Keras LSTM or GRU, or a cell. "
            f"Received: {describe(layer)}. Pass one direction of a Bidirectional, such as "
            "layer.forward_layer."
        )
    cell = recurrent_cell(layer)
    # The arrays of "encoder_r_" belong to another layer than those of "encoder_".
    entries = {
        name: entry
        for name, entry in named_entries(weights, "_", prefix).items()
        if "_" not in name.removeprefix(prefix)
    }
    if f"{prefix}h0" in entries:
        raise ValueError(
            f"The array '{prefix}h0' is a learned initial state, which no layer of Keras has. Take "
            "it out of the weights, and pass it in the call: layer(x, initial_state=...)."
        )
    has_norms = f"{prefix}s1" in entries
    if has_norms:
        _require_norms(cell)
    elif isinstance(cell, NormCell) and cell.slot_layers():
        raise ValueError(
            f"The weights '{prefix}...' have no gains s1, s2 and so on, and {describe(cell)} has "
            "norms. Load the weights into a Keras layer."
        )
    lstm = isinstance(cell, keras.layers.LSTMCell)
    assignments = (_lstm if lstm else _gru)(cell, prefix, has_norms)
    assign_weights(assignments, entries, SOURCE)


def _require_norms(cell: keras.layers.Layer) -> None:
    """Raise a ValueError if a cell does not have the norms of the paper's code."""
    lstm = isinstance(cell, keras.layers.LSTMCell)
    slots = {
        slot: "biased" if slot in KERNEL_SLOTS else "norm"
        for slot in (NormLSTMCell if lstm else NormGRUCell).SLOTS
    }
    norms = ", ".join(f"'{slot}': {norm}" for slot, norm in slots.items())
    advice = (
        f"Create the layer as {'NormLSTM' if lstm else 'NormGRU'}(units, {{{norms}}}) with "
        f"biased=keras_norm.compat.BiasedLayerNormalization(epsilon={EPSILON}) and "
        f"norm=keras_norm.LayerNormalization(epsilon={EPSILON})"
    )
    if not isinstance(cell, NormCell):
        raise ValueError(f"The weights have norms, and {describe(cell)} has none. {advice}.")
    require_options(cell, {"norm_form": "separate", "normalize_carry": False}, SOURCE, advice)
    require_layer_norms(cell, {"epsilon": EPSILON, "center": True, "scale": True}, SOURCE, advice)
    for slot, norm in cell.slot_layers().items():
        if isinstance(norm, BiasedLayerNormalization) != (slots[slot] == "biased"):
            raise ValueError(
                f"{SOURCE} adds the bias of W x inside the norm, and U h has no bias. Received "
                f"{describe(cell)} with {type(norm).__name__} in {slot}. {advice}."
            )


def _lstm(cell: keras.layers.Layer, prefix: str, has_norms: bool) -> list[Assignment]:
    """Return the assignments of an LSTM; the gates of the archive are i, f, o, c."""
    advice = "Create the layer with use_bias=True"
    require_options(cell, {"use_bias": True}, f"{SOURCE} LSTM", advice)

    order = functools.partial(reorder, order=(0, 1, 3, 2), axis=-1)

    def double(gates: Array) -> Array:
        return 2 * order(gates)

    def of_b(variable: keras.Variable, value: Value) -> Assignment:
        return Assignment(variable, {f"{prefix}b": tuple(variable.shape)}, value)

    kernels = {"W": cell.kernel, "U": cell.recurrent_kernel}
    assignments = [
        Assignment(kernel, {f"{prefix}{name}": tuple(kernel.shape)}, order)
        for name, kernel in kernels.items()
    ]
    if not has_norms:
        return [*assignments, of_b(cell.bias, double)]
    biases = [of_b(cell.kernel_norm.bias, order), of_b(cell.bias, order)]
    return [
        *assignments,
        *biases,
        *_affine(cell, prefix, ["kernel_norm", "recurrent_norm"], order),
    ]


def _gru(cell: keras.layers.Layer, prefix: str, has_norms: bool) -> list[Assignment]:
    """Return the assignments of a GRU; the gates of the archive are r, u, and u is z of Keras."""
    advice = "Create the layer with these arguments"
    options = {"reset_after": True, "use_bias": True}
    require_options(cell, {} if has_norms else options, f"{SOURCE} GRU", advice)
    n = cell.units

    order = functools.partial(reorder, order=(1, 0), axis=-1)

    def join(gates: Array, candidate: Array) -> Array:
        return np.concatenate([order(gates), candidate], axis=-1)

    def join_biases(gates: Array, candidate: Array) -> Array:
        joined = join(gates, candidate)
        return np.stack([joined, np.zeros_like(joined)])

    def gates_and_candidate(gates: str, candidate: str, *rows: int) -> dict[str, Sizes]:
        return {f"{prefix}{gates}": (*rows, 2 * n), f"{prefix}{candidate}": (*rows, n)}

    assignments = [
        Assignment(cell.kernel, gates_and_candidate("W", "Wx", cell.kernel.shape[0]), join),
        Assignment(cell.recurrent_kernel, gates_and_candidate("U", "Ux", n), join),
    ]
    if not has_norms:
        return [
            *assignments,
            Assignment(cell.bias, gates_and_candidate("b", "bx"), join_biases),
        ]
    if cell.bias is not None:
        assignments.append(Assignment(cell.bias, {}, lambda: np.zeros(3 * n)))
    return [
        *assignments,
        Assignment(cell.kernel_norm.bias, {f"{prefix}b": (2 * n,)}, order),
        Assignment(cell.kernel_candidate_norm.bias, {f"{prefix}bx": (n,)}),
        *_affine(cell, prefix, ["kernel_norm", "recurrent_norm"], order),
    ]


def _affine(
    cell: keras.layers.Layer, prefix: str, gated: Collection[str], order: Value
) -> Iterator[Assignment]:
    """Yield the assignments of gamma and beta of all slots: s1 and b1, s2 and b2, and so on.

    `gated` are the slots whose columns are several gates. The function `order` reorders them.
    """
    for number, (slot, norm) in enumerate(cell.slot_layers().items(), 1):
        for letter, variable in (("s", norm.gamma), ("b", norm.beta)):
            name = f"{prefix}{letter}{number}"
            value = order if slot in gated else np.asarray
            yield Assignment(variable, {name: tuple(variable.shape)}, value)
