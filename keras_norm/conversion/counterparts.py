"""Create the layer of keras_norm that replaces a Keras layer, and the layer for the way back."""

from collections.abc import Mapping
from typing import Any

import keras
from keras.layers import GRU, LSTM, RNN, GRUCell, LSTMCell, SimpleRNN, SimpleRNNCell

import keras_norm.rnn as rnn
from keras_norm.keras_internals import receives_mask
from keras_norm.layers.batch_norm import BatchNormalization
from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.rms_norm import RMSNormalization
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.cell_layer import CellLayer
from keras_norm.rnn.slots import NormArgument
from keras_norm.typing import Config, Shape

# Keras' recurrent layers, each with its cell.
RECURRENT = {LSTM: LSTMCell, GRU: GRUCell, SimpleRNN: SimpleRNNCell}
NORMS = {
    keras.layers.LayerNormalization: LayerNormalization,
    keras.layers.RMSNormalization: RMSNormalization,
    keras.layers.BatchNormalization: BatchNormalization,
}
CONVERTIBLE = (*RECURRENT, *RECURRENT.values(), *NORMS)

# Prefix of the class of a recurrent layer with the norms of a paper, such as LayerNormLSTM.
PRESETS = {"layer": "LayerNorm", "batch": "BatchNorm"}
# Options of our layers with the values that compute the equations of the Keras layer.
KERAS_OPTIONS: dict[type[keras.layers.Layer], Config] = {
    LayerNormalization: {"epsilon_placement": "inside", "ddof": 0},
    RMSNormalization: {},
    BatchNormalization: {
        "debias": False,
        "virtual_batch_size": None,
        "renorm": False,
        "unbiased_variance": False,
    },
}


def is_convertible(layer: keras.layers.Layer) -> bool:
    """Return whether `normalized` can replace a Keras layer; a user's subclass is not replaced."""
    if type(layer) is RNN:
        return type(layer.cell) in RECURRENT.values()
    return type(layer) in CONVERTIBLE


def normalized(
    layer: keras.layers.Layer, norm: NormArgument | str, options: Mapping[str, Any]
) -> keras.layers.Layer:
    """Create the normalized layer that replaces a Keras layer, not yet built.

    `keras.layers.RNN` with one Keras cell becomes the recurrent layer of this cell.

    Args:
        layer: a layer for which `is_convertible` is True.
        norm: `norm` of `convert`. Keras' normalization layers ignore it.
        options: further arguments of a preset such as `BatchNormLSTM`.

    Raises:
        TypeError, ValueError: the normalized layer does not support an argument of the Keras layer.
    """
    config, cls = layer.get_config(), type(layer)
    if cls is keras.layers.RMSNormalization:
        config["supports_masking"] = layer.supports_masking
    if cls in NORMS:
        return NORMS[cls](**config)
    if cls is RNN:
        del config["cell"]
        cell = layer.cell.get_config()
        config = {**cell, **config}
        cls = next(of_cell for of_cell, its in RECURRENT.items() if its is type(layer.cell))
    # Zeros, Keras' default, become the default of the new layer.
    initial_bias = keras.initializers.get(config["bias_initializer"])
    if config["use_bias"] and isinstance(initial_bias, keras.initializers.Zeros):
        del config["bias_initializer"]
    if norm == "batch" and "max_timesteps" not in options:
        options = {**options, "max_timesteps": _static_timesteps(layer)}
    if norm == "rms":
        options = {"norm": RMSNormalization(**options)}
    elif not isinstance(norm, str):
        options = {"norm": norm, **options}
    return _class_named(f"{PRESETS.get(str(norm), 'Norm')}{cls.__name__}")(**config, **options)


def to_keras_layer(layer: keras.layers.Layer) -> keras.layers.Layer | None:
    """Create the Keras layer with the equations of a layer of keras_norm.

    Returns:
        The Keras layer, not yet built. None for another layer, for a recurrent layer with a norm
        inside, for a norm with options that Keras does not have, and for a norm that may pass on a
        mask that Keras' norm would drop.
    """
    cls = type(layer)
    if cls is RMSNormalization and layer.supports_masking and receives_mask(layer) is not False:
        return None
    if cls in KERAS_OPTIONS:
        config = layer.get_config()
        if any(config[name] != value for name, value in KERAS_OPTIONS[cls].items()):
            return None
        keras_class = next(theirs for theirs, ours in NORMS.items() if ours is cls)
        return None if config.get("momentum", 0) is None else _create(keras_class, config)
    cell = layer.cell if isinstance(layer, CellLayer) else layer
    if not isinstance(cell, NormCell) or cell.slots.templates or not _is_ours(cls):
        return None
    if isinstance(layer, CellLayer):
        return _create(layer.keras_class, layer.get_config(), layer.units)
    keras_class = next(base for base in cls.__mro__ if base in RECURRENT.values())
    return _create(keras_class, layer.get_config(), layer.units)


def _create(cls: type[keras.layers.Layer], config: Config, *required: object) -> keras.layers.Layer:
    """Create a Keras layer with those items of a configuration that the class has."""
    names = cls(*required).get_config()
    return cls.from_config({name: value for name, value in config.items() if name in names})


def _class_named(name: str) -> type[keras.layers.Layer]:
    """Return a recurrent layer or cell of keras_norm by its name."""
    cls: type[keras.layers.Layer] = getattr(rnn, name)
    return cls


def _is_ours(cls: type[keras.layers.Layer]) -> bool:
    """Return whether a class is of keras_norm, and not a user's subclass."""
    return getattr(rnn, cls.__name__, None) is cls


def _static_timesteps(layer: keras.layers.Layer) -> int:
    """Return the number of timesteps of a layer's inputs.

    Raises:
        ValueError: the number is dynamic, or unknown because the layer is a cell.
    """
    build_config = layer.get_build_config() or {}
    # Keras stores all shapes of a layer that was called with `initial_state`.
    shapes = build_config.get("shapes_dict") or {}
    shape: Shape = build_config.get("input_shape") or shapes.get("sequences_shape") or ()
    timesteps = shape[1] if len(shape) == 3 else None
    if timesteps is None:
        is_cell = type(layer) in RECURRENT.values()
        reason = "a cell does not know the length of the inputs"
        raise ValueError(
            "norm='batch' needs the number of timesteps with their own statistics, and "
            f"{reason if is_cell else 'the length of the inputs is dynamic'}. Pass the longest "
            "length, such as max_timesteps=100."
        )
    return timesteps
