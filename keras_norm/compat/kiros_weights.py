"""Load weights that the code of the paper "Layer Normalization" wrote."""

from collections.abc import Iterator

import keras
import numpy as np

from keras_norm.compat.biased_layer_norm import BiasedLayerNormalization
from keras_norm.compat.equations import (
    NO_OPTIONS,
    describe,
    recurrent_cell,
    require_layer_norms,
    require_options,
)
from keras_norm.compat.named_weights import (
    Assignment,
    Sizes,
    Weights,
    assign_weights,
    named_entries,
    reorder,
)
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.gru import NormGRUCell
from keras_norm.rnn.lstm import NormLSTMCell
from keras_norm.rnn.slots import KERNEL_SLOTS
from keras_norm.typing import Array, Config

SOURCE = "Kiros' layer-norm"
EPSILON = 1e-5


def load_kiros_weights(layer: keras.layers.Layer, weights: Weights, prefix: str) -> None:
    """Load the weights of an LSTM or a GRU of Kiros' `layer-norm`, with or without norms.

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
        weights: arrays by name, or the .npz file, such as the file of skip-thoughts.
        prefix: beginning of the names of the layer's arrays, such as `encoder_`. Other arrays are
            ignored.

    Raises:
        TypeError: the layer is neither an LSTM nor a GRU, or is of a custom class.
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
    # With the prefix "encoder_", load the weight "encoder_W". Do not load "encoder_r_W", the weight
    # of a layer with the prefix "encoder_r_".
    entries = {
        name: entry
        for name, entry in named_entries(weights, "_", prefix).items()
        if "_" not in name.removeprefix(prefix)
    }
    if f"{prefix}h0" in entries:
        raise ValueError(
            f"The array '{prefix}h0' is a learned initial state, which cannot be loaded. Remove "
            "this array from the weights. Pass this array to the call: "
            "layer(x, initial_state=...); or create the layer with learn_initial_state=True, and "
            "assign the array to layer.cell.initial_states[0]."
        )
    has_norms = f"{prefix}s1" in entries
    if has_norms:
        _require_norms(cell)
    elif isinstance(cell, NormCell) and cell.slot_layers():
        raise ValueError(
            f"{describe(cell)} has norms, but the weights '{prefix}...' have no gains s1, s2 of "
            "norms. Load the weights into a Keras layer."
        )
    assign_weights(list(_assignments(cell, prefix, has_norms)), entries, SOURCE)


def _require_norms(cell: keras.layers.Layer) -> None:
    """Raise a ValueError if a cell has other norms than the cell in the code of the paper."""
    lstm = isinstance(cell, keras.layers.LSTMCell)
    slots = {
        slot: "biased" if slot in KERNEL_SLOTS else "norm"
        for slot in (NormLSTMCell if lstm else NormGRUCell).SLOTS
    }
    listed = ", ".join(f"'{slot}': {norm}" for slot, norm in slots.items())
    advice = (
        f"Create biased = keras_norm.compat.BiasedLayerNormalization(epsilon={EPSILON}) and "
        f"norm = keras_norm.LayerNormalization(epsilon={EPSILON}). Then create the layer as "
        f"{'NormLSTM' if lstm else 'NormGRU'}(units, {{{listed}}})"
    )
    if not isinstance(cell, NormCell):
        raise ValueError(f"The weights have norms, but {describe(cell)} has none. {advice}.")
    norms = {"epsilon": EPSILON, "center": True, "scale": True}
    options = {"normalize_carry": False, **NO_OPTIONS}
    require_layer_norms(cell, norms, options, SOURCE, advice)
    for slot, norm in cell.slot_layers().items():
        if isinstance(norm, BiasedLayerNormalization) != (slots[slot] == "biased"):
            raise ValueError(
                f"In {SOURCE}, only the norm of W x adds a bias before it normalizes, but received "
                f"{describe(cell)} with a {type(norm).__name__} as {slot}. {advice}."
            )


def _assignments(cell: keras.layers.Layer, prefix: str, has_norms: bool) -> Iterator[Assignment]:
    """Yield each variable of a cell, with the arrays of Kiros' code to load into it.

    One array has the gates i, f, o, c of an LSTM. One array has the gates r, u of a GRU, and u is
    z of Keras. The candidate of a GRU has separate arrays, whose names end with x.
    """
    lstm, n = isinstance(cell, keras.layers.LSTMCell), cell.units
    order, widths = ((0, 1, 3, 2), {"": 4 * n}) if lstm else ((1, 0), {"": 2 * n, "x": n})
    options: Config = {"use_bias": True, **NO_OPTIONS}
    if not lstm:
        options |= {"reset_after": True, "norm_form": "separate"}
    if lstm or not has_norms:
        source = f"{SOURCE} {'LSTM' if lstm else 'GRU'}"
        require_options(cell, options, source, "Create the layer with these arguments")

    def reordered(gates: Array) -> Array:
        return reorder(gates, order, axis=-1)

    def join(gates: Array, *candidate: Array) -> Array:
        return np.concatenate([reordered(gates), *candidate], axis=-1)

    def join_biases(*biases: Array) -> Array:
        joined = join(*biases)
        return 2 * joined if lstm else np.stack([joined, np.zeros_like(joined)])

    def arrays(name: str, *rows: int) -> dict[str, Sizes]:
        return {f"{prefix}{name}{end}": (*rows, width) for end, width in widths.items()}

    yield Assignment(cell.kernel, arrays("W", cell.kernel.shape[0]), join)
    yield Assignment(cell.recurrent_kernel, arrays("U", n), join)
    if not has_norms:
        yield Assignment(cell.bias, arrays("b"), join_biases)
        return
    if lstm:
        yield Assignment(cell.bias, arrays("b"), join)
    elif cell.bias is not None:
        yield Assignment.zeros(cell.bias)
    yield Assignment.of_entry(cell.kernel_norm.bias, f"{prefix}b", reordered)
    if not lstm:
        yield Assignment.of_entry(cell.kernel_candidate_norm.bias, f"{prefix}bx")
    for number, (slot, norm) in enumerate(cell.slot_layers().items(), 1):
        value = reordered if slot in ("kernel_norm", "recurrent_norm") else np.asarray
        for letter, variable in (("s", norm.gamma), ("b", norm.beta)):
            yield Assignment.of_entry(variable, f"{prefix}{letter}{number}", value)
