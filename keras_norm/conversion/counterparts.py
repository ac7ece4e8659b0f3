"""Create the layer of keras_norm that replaces a Keras layer, or the reverse."""

import inspect
from collections.abc import Mapping
from typing import Any

import keras
from keras.layers import RNN

import keras_norm.layers as layers
import keras_norm.rnn as rnn
from keras_norm.keras_internals import receives_mask
from keras_norm.layers.arguments import KERAS_ARGUMENTS
from keras_norm.layers.rms_norm import RMSNormalization
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.presets import PRESETS
from keras_norm.rnn.slots import NormArgument
from keras_norm.typing import Config, Shape

# Keras layer -> its Keras cell, such as LSTM -> LSTMCell.
RECURRENT = {layer.keras_class: cell for cell, layer in rnn.KERAS_CELLS.items()}
# Norm of Keras -> norm of keras_norm.
NORMS = {cls.KERAS_CLASS: cls for cls in layers.LAYERS if cls.KERAS_CLASS is not None}
# Options that have no effect on a built cell without norms.
UNUSED = {"norm", "norm_form", "normalize_carry", "unit_update_bias"}
CONVERTIBLE = (*RECURRENT, *RECURRENT.values(), *NORMS)


def is_convertible(layer: keras.layers.Layer) -> bool:
    """Return whether `convert` replaces a layer. It never replaces a layer of a user's subclass."""
    if type(layer) is RNN:
        return type(layer.cell) in RECURRENT.values()
    return type(layer) in CONVERTIBLE


def normalized(
    layer: keras.layers.Layer, norm: NormArgument | str, options: Mapping[str, Any]
) -> keras.layers.Layer:
    """Create the normalized layer, not yet built, that replaces a Keras layer.

    `keras.layers.RNN` with one Keras cell becomes the recurrent layer of this cell.

    Args:
        layer: a layer for which `is_convertible` is True.
        norm: `norm` of `convert`. Keras' normalization layers ignore it.
        options: further arguments of a preset such as `BatchNormLSTM`.

    Raises:
        TypeError, ValueError: the normalized layer does not support an argument of the Keras layer.
    """
    config, cls = layer.get_config(), type(layer)
    if cls in NORMS:
        if "supports_masking" in inspect.signature(NORMS[cls]).parameters:
            config["supports_masking"] = layer.supports_masking
        return NORMS[cls](**config)
    if cls is RNN:
        del config["cell"]
        cell = layer.cell.get_config()
        config = {**cell, **config}
        cls = next(of_cell for of_cell, its in RECURRENT.items() if its is type(layer.cell))
    # Do not copy Keras' default bias initializer, zeros: the new layer has its own default.
    initial_bias = keras.initializers.get(config["bias_initializer"])
    if config["use_bias"] and isinstance(initial_bias, keras.initializers.Zeros):
        del config["bias_initializer"]
    if norm == "batch" and "max_timesteps" not in options:
        options = {**options, "max_timesteps": _static_timesteps(layer)}
    if norm == "rms":
        options = {"norm": RMSNormalization(**options)}
    elif not isinstance(norm, str):
        options = {"norm": norm, **options}
    prefix = PRESETS[norm].prefix if isinstance(norm, str) and norm in PRESETS else "Norm"
    created: keras.layers.Layer = getattr(rnn, f"{prefix}{cls.__name__}")(**config, **options)
    return created


def to_keras_layer(layer: keras.layers.Layer) -> keras.layers.Layer | None:
    """Create the Keras layer that computes the same outputs as a layer of keras_norm, or None.

    Returns:
        The Keras layer, not yet built. None for another layer, for a recurrent layer with a norm
        inside or another equation than Keras' layer, for a norm with options that Keras does not
        have, and for a norm that may pass on a mask that Keras' norm would drop.
    """
    cls, config = type(layer), layer.get_config()
    if cls in NORMS.values():
        # Keras has no momentum=None. Replace None by 0.0, so that the comparison below fails.
        options = {**cls.KERAS_OPTIONS, "momentum": config.get("momentum") or 0.0}
        if any(config.get(name, value) != value for name, value in options.items()):
            return None
        created = _create(cls.KERAS_CLASS, config)
        drops_mask = layer.supports_masking and not created.supports_masking
        return None if drops_mask and receives_mask(layer) is not False else created
    for ours in rnn.LAYERS:
        keras_class = {ours: ours.keras_class, ours.cell_class: RECURRENT.get(ours.keras_class)}
        if keras_class.get(cls) is None:
            continue
        cell = getattr(layer, "cell", layer)
        if cell.has_keras_gates() and not _has_own_options(cell):
            return _create(keras_class[cls], config, layer.units)
    return None


def _has_own_options(cell: NormCell) -> bool:
    """Return whether a cell without norms uses an option that Keras lacks, such as zoneout."""
    config, parameters = cell.get_config(), inspect.signature(type(cell)).parameters
    keras_cell = next(cls for cls in type(cell).__mro__ if cls in RECURRENT.values())
    of_keras = {**inspect.signature(keras_cell).parameters, **KERAS_ARGUMENTS}
    own = parameters.keys() - of_keras.keys() - UNUSED
    return any(config[name] != parameters[name].default for name in own)


def _create(cls: type[keras.layers.Layer], config: Config, *required: object) -> keras.layers.Layer:
    """Create a Keras layer from a config; ignore items that its class does not know."""
    names = cls(*required).get_config()
    return cls.from_config({name: value for name, value in config.items() if name in names})


def _static_timesteps(layer: keras.layers.Layer) -> int:
    """Return the static number of timesteps of a layer's inputs.

    Raises:
        ValueError: the number is dynamic, or unknown because the layer is a cell.
    """
    build_config = layer.get_build_config() or {}
    # After a call with `initial_state`, Keras stores the input shape as "sequences_shape".
    shapes = build_config.get("shapes_dict") or {}
    shape: Shape = build_config.get("input_shape") or shapes.get("sequences_shape") or ()
    timesteps = shape[1] if len(shape) == 3 else None
    if timesteps is None:
        is_cell = type(layer) in RECURRENT.values()
        reason = "a cell does not know the number of timesteps of its inputs"
        raise ValueError(
            "norm='batch' needs the number of timesteps, because each timestep has its own "
            f"statistics, but {reason if is_cell else 'the length of the inputs is dynamic'}. Pass "
            "the length of the longest sequence, such as max_timesteps=100."
        )
    return timesteps
