"""Check that a layer computes the equations of another library's layer."""

from collections.abc import Mapping

import keras

from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.rnn.cell import NormCell
from keras_norm.typing import Config

# Packages whose layer classes have known equations. All other classes are custom.
KNOWN = ("keras.", "keras_norm.")
# Options of NormLSTM and NormGRU that other libraries do not have. These values disable them.
NO_OPTIONS: Config = {"zoneout": 0.0, "cell_zoneout": 0.0, "peepholes": False, "cell_clip": None}
NO_OPTIONS |= {"projection_units": None}
LAYER_NORM: Config = {"epsilon_placement": "inside", "ddof": 0, "rms_scaling": False}


def describe(layer: keras.layers.Layer) -> str:
    """Return the class and the path of a layer, such as "LSTMCell 'lstm/lstm_cell'"."""
    return f"{type(layer).__name__} '{layer.path or layer.name}'"


def require_built(layer: keras.layers.Layer) -> None:
    """Raise a ValueError if a layer is not built, is quantized, or has LoRA weights."""
    if not layer.built:
        raise ValueError(
            f"{describe(layer)} is not built, so it has no weights. Build it, or call it once, "
            "before you load weights."
        )
    if layer.quantization_mode is not None or getattr(layer, "lora_enabled", False):
        raise ValueError(
            f"{describe(layer)} is quantized or has LoRA weights, so weights of another library "
            "cannot be loaded. Load the weights before you quantize the layer or enable LoRA."
        )


def require_known_class(layer: keras.layers.Layer) -> None:
    """Raise a TypeError if a layer is of a custom class, whose equations are unknown."""
    if not type(layer).__module__.startswith(KNOWN):
        raise TypeError(
            f"{describe(layer)} is of a custom class, so its equations are unknown. Use a layer of "
            "Keras or of keras_norm, or call set_weights of your layer."
        )


def recurrent_cell(layer: keras.layers.Layer) -> keras.layers.Layer:
    """Return the cell of a built recurrent layer, or the argument itself if it is a cell.

    Raises:
        TypeError: the layer or the cell is of a custom class.
        ValueError: the cell is not built.
    """
    cell = getattr(layer, "cell", layer)
    require_known_class(layer)
    require_known_class(cell)
    require_built(cell)
    return cell


def directions(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return [forward layer, backward layer] of a `Bidirectional`, and [layer] of another layer.

    Raises:
        ValueError: the forward layer reads backwards, or the outputs of both directions are merged
            by another operation than concatenation. The bidirectional layers of PyTorch and Flax
            concatenate the outputs.
    """
    layers = [layer]
    if isinstance(layer, keras.layers.Bidirectional):
        layers = [layer.forward_layer, layer.backward_layer]
        if layer.merge_mode not in ("concat", None):
            raise ValueError(
                f"{describe(layer)} has merge_mode='{layer.merge_mode}', but the bidirectional "
                "layers of PyTorch and Flax concatenate the outputs of both directions. Create "
                "the layer with merge_mode='concat'."
            )
    require_forward(layers[0])
    return layers


def require_forward(layer: keras.layers.Layer) -> None:
    """Raise a ValueError if a recurrent layer reads sequences backwards."""
    if getattr(layer, "go_backwards", False):
        raise ValueError(
            f"{describe(layer)} reads sequences backwards, but the weights are from a layer that "
            "reads sequences forwards. Create the layer with go_backwards=False."
        )


def require_options(
    layer: keras.layers.Layer, options: Mapping[str, object], source: str, advice: str
) -> None:
    """Raise a ValueError if options of a layer differ from those of another library's layer.

    Args:
        layer: a layer or a cell.
        options: values by the names of constructor arguments, as `get_config` returns them. An
            argument that the layer does not have is ignored.
        source: the layer of the other library, such as "nn.GRU".
        advice: the layer to create, such as "Create the layer as GRU(units)".
    """
    config = layer.get_config()
    different = [key for key, value in options.items() if config.get(key, value) != value]
    if different:
        raise ValueError(
            f"{source} has {', '.join(f'{key}={options[key]!r}' for key in different)}, but "
            f"received {describe(layer)} with "
            f"{', '.join(f'{key}={config[key]!r}' for key in different)}. {advice}."
        )


def require_last_axes(layer: keras.layers.Layer, source: str) -> None:
    """Raise a ValueError if a norm normalizes other axes than the last ones, such as axis=1."""
    axes = list(layer.axis) if isinstance(layer.axis, list | tuple) else [layer.axis]
    shape = (layer.get_build_config() or {}).get("input_shape") or ()
    from_the_end = [axis if axis < 0 else axis - len(shape) for axis in axes]
    if from_the_end != list(range(-len(axes), 0)):
        raise ValueError(
            f"{source} normalizes the last axis, or several last axes, but received "
            f"{describe(layer)} with axis={layer.axis}. Create the layer with axis=-1, or for two "
            "axes with axis=[-2, -1]."
        )


def require_layer_norms(
    cell: keras.layers.Layer,
    norms: Mapping[str, object],
    options: Mapping[str, object],
    source: str,
    advice: str,
    norm_form: str = "separate",
) -> None:
    """Require that a cell has the LayerNormalizations and options of another library's cell.

    Args:
        cell: a built cell.
        norms: options of the `LayerNormalization` in every slot, such as `epsilon`.
        options: options of the cell, such as `normalize_carry`.
        source: the cell of the other library, such as "tfa.rnn.LayerNormLSTMCell".
        advice: the layer to create.
        norm_form: form of the cell of the other library.
    """
    layers = cell.slot_layers() if isinstance(cell, NormCell) else {}
    slots = cell.slot_sizes(norm_form) if isinstance(cell, NormCell) else ["any position"]
    wrong = [slot for slot in slots if not isinstance(layers.get(slot), LayerNormalization)]
    if wrong:
        raise ValueError(
            f"{source} has LayerNormalizations as its norms, but received {describe(cell)} "
            f"without a LayerNormalization at {', '.join(wrong)}. {advice}."
        )
    for norm in layers.values():
        require_options(norm, {**LAYER_NORM, **norms}, source, advice)
    require_options(cell, options, source, advice)


def require_carried_norms(
    cell: keras.layers.Layer,
    epsilon: float,
    options: Mapping[str, object],
    source: str,
    name: str,
    loader: str,
) -> None:
    """Require that a cell is a LayerNorm LSTM that also normalizes c: normalize_carry=True.

    Args:
        cell: a built cell.
        epsilon: epsilon of the norms.
        options: further options of the cell.
        source: the cell of the other library.
        name: the epsilon in the other library, such as "the eps of the module".
        loader: the function that the user calls with `epsilon`, such as "load_torch_weights".
    """
    advice = (
        f"Create the layer as NormLSTM(units, norm=LayerNormalization(epsilon={epsilon}), "
        f"normalize_carry=True), or call {loader} with epsilon=..., {name}"
    )
    norms = {"epsilon": epsilon, "center": True, "scale": True}
    options = {**options, "normalize_carry": True, **NO_OPTIONS}
    require_layer_norms(cell, norms, options, source, advice)


def require_bias(has_bias: bool, layer: keras.layers.Layer, source: str) -> None:
    """Require that `use_bias` of a layer equals `has_bias`, the value in the other library."""
    if has_bias != layer.use_bias:
        raise ValueError(
            f"{source} has {'a' if has_bias else 'no'} bias, but {describe(layer)} has "
            f"{'a' if layer.use_bias else 'no'} bias. Create the layer with use_bias={has_bias}."
        )
