"""Load weights of the LayerNormLSTM of haste, a library with layers for PyTorch."""

import keras

from keras_norm.compat.equations import (
    NO_OPTIONS,
    recurrent_cell,
    require_bias,
    require_forward,
    require_layer_norms,
    require_options,
)
from keras_norm.compat.named_weights import (
    Assignment,
    Weights,
    assign_weights,
    named_entries,
    reorder,
)
from keras_norm.rnn.cell import NormCell
from keras_norm.typing import Array

SOURCE = "haste_pytorch.LayerNormLSTM"
ADVICE = "Create the layer as LayerNormLSTM(units)"
ORDER = (0, 2, 1, 3)  # haste stores the gates as i, g, f, o; Keras as i, f, g, o.
EPSILON = 1e-5
OPTIONS = {"activation": "tanh", "recurrent_activation": "sigmoid", "normalize_carry": False}
OPTIONS |= {name: value for name, value in NO_OPTIONS.items() if name != "zoneout"}


def load_haste_weights(layer: keras.layers.Layer, weights: Weights, prefix: str = "") -> None:
    """Load the weights of a `haste_pytorch.LayerNormLSTM` into a `LayerNormLSTM`.

    ::

        i, g, f, o = layer_norm(W x; gamma[0]) + layer_norm(U h; gamma[1]) + bias
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(layer_norm(c; gamma_h, beta_h))

    The norms of W x and of U h have no beta, so the betas of the Keras layer become zeros. Give the
    layer the `zoneout` of haste's layer.

    Args:
        layer: a built `LayerNormLSTM` or an equal `NormLSTM`, or its cell.
        weights: the state dict, or the path of a .safetensors or .npz file.
        prefix: name of the module in the state dict. Other entries are ignored.

    Raises:
        TypeError: the layer is of a custom class.
        ValueError: the weights belong to haste's LayerNormGRU, which has one norm of W x and one
            of U h for all gates; the layer is not built or computes other equations; an entry is
            missing, has another shape or is transposed, or is not of a LayerNormLSTM.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> shapes = {"kernel": (5, 16), "recurrent_kernel": (4, 16), "bias": (16,)}
        >>> shapes |= {"gamma": (2, 16), "gamma_h": (4,), "beta_h": (4,)}
        >>> layer = LayerNormLSTM(4)
        >>> layer.build((None, None, 5))
        >>> load_haste_weights(layer, {name: rng.normal(size=s) for name, s in shapes.items()})

    Reference:
        https://github.com/lmnt-com/haste, frameworks/pytorch/layer_norm_lstm.py.
    """
    path = f"{prefix.removesuffix('.')}." if prefix else ""
    entries = named_entries(weights, ".", path)
    if f"{path}recurrent_bias" in entries:
        raise ValueError(
            f"'{path}recurrent_bias' is a weight of haste's LayerNormGRU, which cannot be loaded: "
            "haste's LayerNormGRU has one norm of W x and one of U h for all three gates, and no "
            "GRU of keras_norm has these two norms. Train a LayerNormGRU of keras_norm."
        )
    require_forward(layer)
    cell = recurrent_cell(layer)
    require_layer_norms(cell, {"epsilon": EPSILON, "scale": True}, OPTIONS, SOURCE, ADVICE)
    require_options(cell.state_norm, {"center": True}, SOURCE, ADVICE)
    require_bias(True, cell, SOURCE)
    assign_weights(_assignments(cell, path), entries, SOURCE)


def _assignments(cell: NormCell, path: str) -> list[Assignment]:
    def gates(entry: Array) -> Array:
        return reorder(entry, ORDER, axis=-1)

    found = []
    for name in ("kernel", "recurrent_kernel", "bias"):
        found.append(Assignment.of_entry(getattr(cell, name), path + name, gates))
    for row, norm in enumerate((cell.kernel_norm, cell.recurrent_norm)):
        gammas = {f"{path}gamma": (2, *norm.gamma.shape)}
        found.append(Assignment(norm.gamma, gammas, lambda entry, row=row: gates(entry[row])))
        if norm.beta is not None:
            found.append(Assignment.zeros(norm.beta))
    found.append(Assignment.of_entry(cell.state_norm.gamma, f"{path}gamma_h"))
    found.append(Assignment.of_entry(cell.state_norm.beta, f"{path}beta_h"))
    return found
