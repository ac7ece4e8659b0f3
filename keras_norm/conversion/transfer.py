"""Copy the weights and the compile settings of a model to its converted model."""

from collections.abc import Sequence

import keras
import numpy as np

from keras_norm.ops.to_numpy import to_numpy
from keras_norm.rnn.candidate_normal import CandidateNormal
from keras_norm.rnn.cell import NormCell
from keras_norm.typing import Array


def copy_weights(
    model: keras.Model,
    converted: keras.Model,
    pairs: Sequence[tuple[keras.layers.Layer, keras.layers.Layer]],
) -> None:
    """Copy all weights of a model to the converted model.

    Args:
        model: the original model.
        converted: the converted model.
        pairs: each replaced layer of the model, and its replacement in the converted model. The new
            weights of a replacement, such as gamma, keep their initial values.
    """
    old, new = (
        [w for w in each.weights if id(w) not in {id(v) for layer in side for v in layer.weights}]
        for each, side in zip((model, converted), zip(*pairs, strict=True), strict=True)
    )
    for source, target in zip(old, new, strict=True):
        # Copy the values through NumPy. On JAX, `target.assign(source)` would let both variables
        # share one buffer. `fit` of one model would delete the buffer, and the other model could
        # not read it.
        target.assign(to_numpy(source))
    for layer, replacement in pairs:
        _copy_layer_weights(layer, replacement)


def _copy_layer_weights(layer: keras.layers.Layer, replacement: keras.layers.Layer) -> None:
    """Copy the weights of a layer to its replacement, by the names of the weights."""
    source, target = (getattr(each, "cell", each) for each in (layer, replacement))
    for variable in source.weights:
        weight: keras.Variable | None = getattr(target, variable.name, None)
        if weight is None:
            continue
        value = to_numpy(variable)
        if variable.name == "bias" and value.shape != weight.shape:
            value = _join_gru_biases(value, target)
        if variable.name == "bias" and isinstance(target, NormCell):
            value = _replace_zero_bias(value, target)
        weight.assign(value)


def _join_gru_biases(biases: Array, cell: keras.layers.Layer) -> Array:
    """Compute the bias (3H,) of a GRU with norms from the two biases (2, 3H) of a Keras GRU.

    ::

        n = tanh(W x + b_x + r * (U h + b_h))

    r multiplies the bias b_h of the candidate, so this bias becomes the beta of the candidate's
    norm of U h. Without such a beta it is dropped.
    """
    of_inputs, of_h = biases
    gates = np.arange(len(of_h)) < len(of_h) * 2 // 3
    norm = cell.slot_layers().get("recurrent_candidate_norm")
    if getattr(norm, "beta", None) is not None:
        norm.beta.assign(of_h[~gates])
    joined: Array = of_inputs + np.where(gates, of_h, 0.0)
    return joined


def _replace_zero_bias(bias: Array, cell: NormCell) -> Array:
    """If the bias of the candidate gate is zero, replace it by the cell's initial bias values.

    In Keras the bias of an untrained cell is zero.

    Under a per-sample norm with this bias of zeros, the gradient overflows on sequences that begin
    with zeros (see `CandidateNormal`). Without such a norm, or with the user's own initializer, the
    zeros stay.
    """
    is_default = isinstance(cell.bias_initializer, CandidateNormal)
    if not (is_default and cell.slots.has_per_sample_norm):
        return bias
    gates = np.arange(bias.shape[-1]) // cell.units - bias.shape[-1] // cell.units
    candidate = gates == cell.CANDIDATE
    if bias[..., candidate].any():
        return bias
    return np.where(candidate, to_numpy(cell.bias), bias)


def copy_compile_settings(model: keras.Model, converted: keras.Model) -> None:
    """Compile the converted model like the original model, with a new state of the optimizer.

    Raises:
        ValueError: the settings cannot be copied, for example an unregistered loss.
    """
    if not model.compiled:
        return
    try:
        converted.compile_from_config(model.get_compile_config())
    # Keras' deserialization may raise any error.
    except Exception as error:
        raise ValueError(
            f"The compile settings of model '{model.name}' cannot be copied: {error}. Convert the "
            "model before you compile it."
        ) from error
