"""A copy of a model that trains without dropout and whose batch statistics can be read."""

import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from keras_norm.keras_internals import reason
from keras_norm.time_distributed import apply_to_rows
from keras_norm.walk import batch_norms, is_batch_norm, named_layers

DROPOUTS = (keras.layers.Dropout, keras.layers.AlphaDropout, keras.layers.GaussianDropout)


def measuring_clone(model: Any, *, noise: bool = False) -> Any:
    """Rebuild a model from its config, then switch off dropout, noise and BatchNorm momenta.

    With momentum 0, one call with training=True leaves the batch's own mean and variance in
    moving_mean and moving_variance. The model itself, its weights and its seeds are not touched.

    Args:
        model: a built Keras model that can be rebuilt from its config.
        noise: whether a GaussianNoise adds its noise with training=True.

    Returns:
        The clone, with the model's weights.

    Raises:
        ValueError: the model cannot be rebuilt, or a layer of the user's own draws dropout.
    """
    clone = rebuilt(model)
    for _, layer in named_layers(clone):
        if isinstance(layer, keras.layers.TimeDistributed):
            # Wrong in a graph with a dynamic time, in which recalibration runs the clone.
            vars(layer)["call"] = partial(apply_to_rows, layer)
    for (_, own), (_, copy) in zip(batch_norms(model), batch_norms(clone), strict=True):
        copy.trainable = own.trainable  # a slot's is in no config
    silent = [layer for _, layer in named_layers(clone) if _silence(layer, noise)]
    for path, layer in named_layers(clone):
        if _drops(layer) and not any(inner in silent for _, inner in named_layers(layer)):
            raise ValueError(
                f"layer {path!r} keeps its dropout: {type(layer).__name__} is none of Keras' "
                "layers, and holds none that drops. Let it call a keras.layers.Dropout."
            )
    return clone


def rebuilt(model: Any, change: Callable[[dict[str, Any]], Any] = lambda part: part) -> Any:
    """Rebuild a model from its config after a change, with the model's weights.

    Args:
        model: a built Keras model that can be rebuilt from its config.
        change: of every dict in the config, the innermost first: what stands in its place.

    Raises:
        ValueError: the model cannot be rebuilt.
    """
    custom_objects = _own_classes([model, *(layer for _, layer in named_layers(model))])
    try:
        config = keras.saving.serialize_keras_object(model)
        # The config was made here from a live object: safe mode would refuse its own Lambdas.
        clone = keras.saving.deserialize_keras_object(
            _mapped(change, config), custom_objects=custom_objects, safe_mode=False
        )
        clone.set_weights(model.get_weights())
        _copy_adapted(model, clone)
    except Exception as error:
        why = reason(error).split("\n")[0]
        raise ValueError(f"the model cannot be rebuilt from its config: {why}") from error
    return clone


def _mapped(change: Callable[[dict[str, Any]], Any], node: Any) -> Any:
    """A nested config with every dict changed, the innermost first, and no model compiled."""
    if isinstance(node, list | tuple):
        return type(node)(_mapped(change, item) for item in node)
    if not isinstance(node, dict):
        return node
    parts = [(key, value) for key, value in node.items() if key != "compile_config"]
    return change({key: _mapped(change, value) for key, value in parts})


def _own_classes(layers: list[Any]) -> dict[str, type]:
    """The users' classes by the names that a config has for them.

    Raises:
        ValueError: two have the same.
    """
    found: dict[str, type] = {}
    for cls in map(type, layers):
        if cls.__module__.partition(".")[0] == "keras":
            continue
        name = keras.saving.get_registered_name(cls)
        if found.setdefault(name, cls) is not cls:
            raise ValueError(
                f"the model cannot be rebuilt from its config: {found[name]} and {cls} both are "
                f"called {name!r} there. Decorate them with "
                "keras.saving.register_keras_serializable(package=...), each with another package"
            )
    return found


def _copy_adapted(model: Any, clone: Any) -> None:
    """Give the clone what layers learned in `adapt`: vocabularies, and means not yet in use."""
    copies = dict(named_layers(clone))
    for path, layer in named_layers(model):
        if path not in copies or not hasattr(layer, "adapt"):
            continue
        if hasattr(layer, "save_assets"):
            with tempfile.TemporaryDirectory() as folder:
                layer.save_assets(folder)
                copies[path].load_assets(folder)
        else:
            store: dict[str, Any] = {}
            layer.save_own_variables(store)
            copies[path].load_own_variables(store)


def _silence(layer: Any, noise: bool) -> bool:
    """Switch off what a layer of Keras' or ours draws or remembers; whether it drew dropout."""
    if isinstance(layer, DROPOUTS):
        layer.rate = 0.0
    elif isinstance(layer, keras.layers.Attention):
        layer.dropout = 0.0
    elif hasattr(layer, "get_dropout_mask"):  # what every recurrent cell of Keras' inherits
        layer.dropout = layer.recurrent_dropout = 0.0
    else:
        if isinstance(layer, keras.layers.GaussianNoise) and not noise:
            layer.stddev = 0.0
        if is_batch_norm(layer):
            layer.momentum = 0.0
        return False
    return True


def _drops(layer: Any) -> bool:
    rates = [getattr(layer, name, 0) for name in ("dropout", "recurrent_dropout")]
    if "Dropout" in type(layer).__name__:
        rates.append(getattr(layer, "rate", 0))
    return any(isinstance(rate, int | float) and rate > 0 for rate in rates)
