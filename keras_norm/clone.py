"""A copy of a model that trains without dropout and whose batch statistics can be read."""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from keras_norm.walk import named_layers


def measuring_clone(model: Any, *, noise: bool = False) -> Any:
    """Rebuild a model from its config with dropout rates, noise and BatchNorm momenta at 0.

    With momentum 0, one call with training=True leaves the batch's own mean and variance in
    moving_mean and moving_variance. The model itself, its weights and its seeds are not touched.

    Args:
        model: a built Keras model that can be rebuilt from its config.
        noise: whether a GaussianNoise adds its noise with training=True.

    Returns:
        The clone, with the model's weights.

    Raises:
        ValueError: the model cannot be rebuilt, or a layer keeps its dropout because the config
            does not hold it.
    """
    clone = rebuilt(model, partial(_still, noise=noise))
    for path, layer in named_layers(clone):
        if _drops(layer):
            raise ValueError(
                f"layer {path!r} keeps its dropout, because the rate is not in the model's config"
            )
    return clone


def rebuilt(model: Any, change: Callable[[Any], Any]) -> Any:
    """Rebuild a model from its config after a change, with the model's weights.

    Args:
        model: a built Keras model that can be rebuilt from its config.
        change: config -> changed config.

    Raises:
        ValueError: the model cannot be rebuilt.
    """
    custom_objects = {type(layer).__name__: type(layer) for _, layer in named_layers(model)}
    custom_objects[type(model).__name__] = type(model)
    try:
        config = keras.saving.serialize_keras_object(model)
        config.pop("compile_config", None)
        # The config was made here from a live object: safe mode would refuse its own Lambdas.
        clone = keras.saving.deserialize_keras_object(
            change(config), custom_objects=custom_objects, safe_mode=False
        )
        clone.set_weights(model.get_weights())
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(f"the model cannot be rebuilt from its config: {reason}") from error
    return clone


def _still(node: Any, class_name: str = "", *, noise: bool) -> Any:
    """A nested config with its dropout rates and momenta at 0, its noise too unless it stays."""
    if isinstance(node, list | tuple):
        return type(node)(_still(item, noise=noise) for item in node)
    if not isinstance(node, dict):
        return node
    if node.get("momentum", 0.0) is None and "debias" in node:
        # A cumulative average counts its updates, and an exponential one only when it is debiased.
        node = {**node, "momentum": 0.0, "debias": True}
    inner = node.get("class_name", "") if isinstance(node.get("class_name"), str) else ""
    return {
        key: 0.0
        if _is_number(value) and _is_silenced(key, class_name, noise)
        else _still(value, inner if key == "config" else "", noise=noise)
        for key, value in node.items()
    }


def _is_silenced(key: str, class_name: str, noise: bool) -> bool:
    return (
        key == "momentum"
        or "dropout" in key
        or (key == "rate" and "Dropout" in class_name)
        or (key == "stddev" and class_name == "GaussianNoise" and not noise)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _drops(layer: Any) -> bool:
    rates = [getattr(layer, name, 0) for name in ("dropout", "recurrent_dropout")]
    if "Dropout" in type(layer).__name__:
        rates.append(getattr(layer, "rate", 0))
    return any(_is_number(rate) and rate > 0 for rate in rates)
