"""Load weights of the GRU of Dreamer, an agent for reinforcement learning."""

from collections.abc import Mapping
from typing import NamedTuple

import keras
import numpy as np

from keras_norm.compat.biased_layer_norm import BiasedLayerNormalization
from keras_norm.compat.equations import (
    NO_OPTIONS,
    describe,
    recurrent_cell,
    require_forward,
    require_layer_norms,
)
from keras_norm.compat.named_weights import (
    Assignment,
    Weights,
    assign_weights,
    named_entries,
    reorder,
    to_array,
)
from keras_norm.rnn.gru import NormGRUCell
from keras_norm.rnn.norm_form import JOINT_SLOT
from keras_norm.typing import Array, Config, TensorLike

SOURCE = "The GRU of Dreamer"
# Dreamer stores the gates as reset, candidate, update; Keras as update, reset, candidate.
ORDER = (2, 0, 1)
FORM = "joint_all"
OPTIONS: Config = {"activation": "tanh", "recurrent_activation": "sigmoid"}
OPTIONS |= {"norm_form": FORM, **NO_OPTIONS}
ADVICE = "Create the layer as NormGRU(units, {norm}(epsilon={epsilon}), norm_form='joint_all')"


class Names(NamedTuple):
    """The names by which a library's state dict lists the linear layer and the norm of its GRU.

    Args:
        linear: the linear layer of h and x.
        norm: the norm.
        state_first: whether the inputs of the linear layer are h, x; else x, h.
    """

    linear: str
    norm: str
    state_first: bool


LIBRARIES = (
    Names("layers.GRU_linear", "layers.GRU_norm", state_first=False),  # NM512/dreamerv3-torch
    Names("linear", "layer_norm", state_first=True),  # sheeprl
)


def load_dreamer_weights(
    layer: keras.layers.Layer, weights: Weights, prefix: str = "", *, epsilon: float = 1e-3
) -> None:
    """Load the weights of the GRU of sheeprl or of dreamerv3-torch into a `NormGRU`.

    ::

        reset, candidate, update = layer_norm(linear([h, x]))
        u = s(update - 1)
        h = u * tanh(s(reset) * candidate) + (1 - u) * h

    The equation is that of `NormGRU(units, LayerNormalization(epsilon=1e-3),
    norm_form="joint_all")`, where z is 1 - u = s(1 - update). So gamma and beta of z are those of
    update with the other sign, and the bias of z is 1.

    If the linear layer has a bias, as in the DreamerV2 of sheeprl, the bias is inside the norm.
    Then pass a `BiasedLayerNormalization` in place of the `LayerNormalization`.

    Args:
        layer: a built `NormGRU` as above, or its cell.
        weights: the state dict, or the path of a .safetensors or .npz file.
        prefix: name of the cell in the state dict, such as "rssm.recurrent_model.rnn". Other
            entries are ignored.
        epsilon: `eps` of the norm, which is not in a state dict: 1e-3 in the DreamerV3 of both
            libraries, 1e-5 in the DreamerV2 of sheeprl.

    Raises:
        TypeError: the layer is not a `NormGRU`, or is of a custom class.
        ValueError: the layer is not built or computes another equation; the linear layer has a
            bias other than zeros, and the norm has none; an entry is missing, has another shape or
            is transposed, or belongs to no variable. The layer keeps its weights.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> shapes = {"linear.weight": (12, 4 + 5)}
        >>> shapes |= {"layer_norm.weight": (12,), "layer_norm.bias": (12,)}
        >>> layer = NormGRU(4, LayerNormalization(epsilon=1e-3), norm_form="joint_all")
        >>> layer.build((None, None, 5))
        >>> load_dreamer_weights(layer, {name: rng.normal(size=s) for name, s in shapes.items()})

    Reference:
        Hafner et al., "Mastering Atari with Discrete World Models" (2021), arXiv 2010.02193;
        https://github.com/Eclectic-Sheep/sheeprl, `LayerNormGRUCell` in models/models.py;
        https://github.com/NM512/dreamerv3-torch, `GRUCell` in networks.py.
    """
    path = f"{prefix.removesuffix('.')}." if prefix else ""
    entries = named_entries(weights, ".", path)
    require_forward(layer)
    cell = recurrent_cell(layer)
    advice = ADVICE.format(norm="LayerNormalization", epsilon=epsilon)
    if not isinstance(cell, NormGRUCell):
        raise TypeError(
            f"layer must be a NormGRU or a NormGRUCell. Received: {describe(layer)}. {advice}."
        )
    advice = f"{advice}, or call load_dreamer_weights with epsilon=..., the eps of the old norm"
    norms = {"epsilon": epsilon, "center": True, "scale": True}
    require_layer_norms(cell, norms, OPTIONS, SOURCE, advice, FORM)
    # Search the library's name of the linear layer, such as "layers.GRU_linear", anywhere in the
    # names of the entries: the user may have forgotten to pass the prefix.
    names = next(
        (names for names in LIBRARIES if any(f"{names.linear}.weight" in name for name in entries)),
        LIBRARIES[-1],
    )
    bias = f"{path}{names.linear}.bias"
    assignments = _assignments(cell, path, names, bias in entries)
    if not isinstance(cell.joint_norm, BiasedLayerNormalization):
        _require_zeros(bias, entries, cell, epsilon)
    assign_weights(assignments, entries, "Dreamer", [bias])


def _require_zeros(
    bias: str, entries: Mapping[str, TensorLike], cell: NormGRUCell, epsilon: float
) -> None:
    """Raise a ValueError if the linear layer of the GRU has a bias that is not zero."""
    if bias in entries and np.any(to_array(entries[bias])):
        advice = ADVICE.format(norm="keras_norm.compat.BiasedLayerNormalization", epsilon=epsilon)
        raise ValueError(
            f"The old GRU adds the bias '{bias}' before its norm, but {describe(cell)} has no bias "
            f"before its norm. {advice}."
        )


def _assignments(
    cell: NormGRUCell, path: str, names: Names, has_linear_bias: bool
) -> list[Assignment]:
    n, (features, _) = cell.units, cell.kernel.shape
    of_h, of_x = (0, n), (n, n + features)
    if not names.state_first:
        of_x, of_h = (0, features), (features, features + n)
    signs, ones = (np.repeat(values, n) for values in ([-1.0, 1.0, 1.0], [1.0, 0.0, 0.0]))
    linear, norm = f"{path}{names.linear}.weight", f"{path}{names.norm}"

    def kernel(variable: keras.Variable, columns: tuple[int, int]) -> Assignment:
        sizes = {linear: (3 * n, n + features)}
        return Assignment(
            variable, sizes, lambda entry: reorder(entry[:, slice(*columns)], ORDER).T
        )

    def with_signs(entry: Array) -> Array:
        return signs * reorder(entry, ORDER)

    layer = cell.slot_layers()[JOINT_SLOT]
    beta = with_signs if cell.use_bias else lambda entry: with_signs(entry) + ones
    found = [
        kernel(cell.kernel, of_x),
        kernel(cell.recurrent_kernel, of_h),
        Assignment.of_entry(layer.gamma, f"{norm}.weight", with_signs),
        Assignment.of_entry(layer.beta, f"{norm}.bias", beta),
    ]
    if cell.use_bias:
        found.append(Assignment(cell.bias, {}, lambda: ones))
    if isinstance(layer, BiasedLayerNormalization):
        name = f"{path}{names.linear}.bias"
        inside = Assignment.of_entry(layer.bias, name, lambda entry: reorder(entry, ORDER))
        found.append(inside if has_linear_bias else Assignment.zeros(layer.bias))
    return found
