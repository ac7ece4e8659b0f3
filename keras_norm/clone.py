"""Rebuild a model from its config, for example with dropout and BatchNorm momentum set to 0."""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial

import keras

from keras_norm.keras_internals import reason, sublayers
from keras_norm.named_layers import is_batch_norm, named_layers
from keras_norm.ops.to_numpy import to_numpy
from keras_norm.time_distributed import apply_to_rows
from keras_norm.typing import Arrays, Config, Json

DROPOUTS = (keras.layers.Dropout, keras.layers.AlphaDropout, keras.layers.GaussianDropout)


def clone_for_statistics(model: keras.Model, *, noise: bool = False) -> keras.Model:
    """Clone a model, and set dropout, noise and BatchNorm momentum of the clone to 0.

    With momentum 0, a call with training=True stores the mean and variance of the batch in
    moving_mean and moving_variance. The original model, its weights and its seeds do not change.

    Args:
        model: a built Keras model that can be rebuilt from its config.
        noise: whether the GaussianNoise layers of the clone add noise with training=True.

    Returns:
        The clone, with the model's weights.

    Raises:
        ValueError: the model cannot be rebuilt, or a custom layer has its own dropout.
    """
    clone = rebuild_model(model)
    for _, layer in named_layers(clone):
        if isinstance(layer, keras.layers.TimeDistributed):
            # Recalibration runs the clone in a graph with a dynamic number of timesteps. In such a
            # graph, TimeDistributed of Keras 3.15 returns wrong outputs. So use `apply_to_rows`.
            vars(layer)["call"] = partial(apply_to_rows, layer)
    disabled = [layer for _, layer in named_layers(clone) if _disable_dropout(layer, noise)]
    for path, layer in named_layers(clone):
        if _has_dropout(layer) and not any(inner in disabled for _, inner in named_layers(layer)):
            raise ValueError(
                f"The dropout of layer {path!r} cannot be switched off: {type(layer).__name__} is "
                "a custom layer with its own dropout. Use keras.layers.Dropout in this layer."
            )
    return clone


def _copy_all_weights(model: keras.Model, clone: keras.Model) -> None:
    clone.set_weights(model.get_weights())


def rebuild_model(
    model: keras.Model,
    change: Callable[[Config], Config] = lambda part: part,
    copy_weights: Callable[[keras.Model, keras.Model], None] = _copy_all_weights,
) -> keras.Model:
    """Rebuild a model from its config, with the model's weights.

    Args:
        model: a built Keras model that can be rebuilt from its config.
        change: function that replaces every dict of the nested config, the innermost dicts first.
        copy_weights: function that copies the weights of the model to the rebuilt model.

    Raises:
        ValueError: the model cannot be rebuilt.
    """
    custom_objects = custom_classes([model, *(layer for _, layer in named_layers(model))])
    try:
        config = keras.saving.serialize_keras_object(model)
        # Safe mode would refuse Lambda layers. Lambda layers are safe here: no file was loaded.
        clone = keras.saving.deserialize_keras_object(
            _map_dicts(change, config), custom_objects=custom_objects, safe_mode=False
        )
        copy_weights(model, clone)
        for layer, copy in _pairs_of_layers(model, clone):
            _copy_attributes(layer, copy)
    except Exception as error:
        why = " ".join(reason(error).split("\n\n")[0].split())
        raise ValueError(f"The model cannot be rebuilt from its config: {why}") from error
    return clone


def _map_dicts(change: Callable[[Config], Config], node: Json) -> Json:
    """Apply `change` to every dict of a nested config, and remove each `compile_config`."""
    if isinstance(node, list | tuple):
        return type(node)(_map_dicts(change, item) for item in node)
    if not isinstance(node, dict):
        return node
    items = [(key, value) for key, value in node.items() if key != "compile_config"]
    return change({key: _map_dicts(change, value) for key, value in items})


def custom_classes(layers: list[keras.layers.Layer]) -> dict[str, type]:
    """Collect the custom layer classes in a dict, by the names that a Keras config gives them.

    Raises:
        ValueError: two classes have one name.
    """
    found: dict[str, type] = {}
    for cls in map(type, layers):
        if cls.__module__.partition(".")[0] == "keras":
            continue
        name = keras.saving.get_registered_name(cls)
        if found.setdefault(name, cls) is not cls:
            raise ValueError(
                f"The model cannot be rebuilt from its config: {found[name]} and {cls} are both "
                f"named {name!r} in the config. Register the classes in two packages: decorate "
                "each class with keras.saving.register_keras_serializable(package=...)"
            )
    return found


def _pairs_of_layers(
    layer: keras.layers.Layer, copy: keras.layers.Layer
) -> Iterator[tuple[keras.layers.Layer, keras.layers.Layer]]:
    """Yield (layer, its copy) for a layer and for all its nested layers, outer layers first.

    Layers that the code of a class creates may have new names in the copy, but have equal
    positions. Keras adds a layer to a copied model for each place where masked inputs are joined;
    then the other layers of the model are found by their names.
    """
    seen: set[int] = set()

    def walk(
        layer: keras.layers.Layer, copy: keras.layers.Layer
    ) -> Iterator[tuple[keras.layers.Layer, keras.layers.Layer]]:
        if id(layer) in seen:
            return
        seen.add(id(layer))
        yield layer, copy
        children, copies = sublayers(layer), sublayers(copy)
        if len(children) != len(copies):
            named = {child.name: child for child in copies}
            children = [child for child in children if child.name in named]
            copies = [named[child.name] for child in children]
        for child, its_copy in zip(children, copies, strict=True):
            yield from walk(child, its_copy)

    return walk(layer, copy)


def _copy_attributes(layer: keras.layers.Layer, copy: keras.layers.Layer) -> None:
    """Copy `trainable`, the states of an RNN and the results of `adapt` to the copy of a layer.

    A result of `adapt` is for example the vocabulary of a TextVectorization.
    """
    if copy.trainable != layer.trainable:
        copy.trainable = layer.trainable
    if isinstance(layer, keras.layers.RNN) and layer.states is not None:
        for state, new in zip(*map(keras.tree.flatten, (layer.states, copy.states)), strict=True):
            new.assign(to_numpy(state))
    if not hasattr(layer, "adapt"):
        return
    if hasattr(layer, "save_assets"):
        with tempfile.TemporaryDirectory() as folder:
            layer.save_assets(folder)
            copy.load_assets(folder)
    else:
        store: Arrays = {}
        layer.save_own_variables(store)
        copy.load_own_variables(store)


def _disable_dropout(layer: keras.layers.Layer, noise: bool) -> bool:
    """Set dropout, noise and BatchNorm momentum of a layer to 0; return whether it has dropout."""
    if isinstance(layer, DROPOUTS):
        layer.rate = 0.0
    elif isinstance(layer, keras.layers.Attention):
        layer.dropout = 0.0
    elif hasattr(layer, "get_dropout_mask"):  # a recurrent cell, such as LSTMCell
        layer.dropout = layer.recurrent_dropout = 0.0
    else:
        if isinstance(layer, keras.layers.GaussianNoise) and not noise:
            layer.stddev = 0.0
        if is_batch_norm(layer):
            layer.momentum = 0.0
        return False
    return True


def _has_dropout(layer: keras.layers.Layer) -> bool:
    rates = [getattr(layer, name, 0) for name in ("dropout", "recurrent_dropout")]
    if "Dropout" in type(layer).__name__:
        rates.append(getattr(layer, "rate", 0))
    return any(isinstance(rate, int | float) and rate > 0 for rate in rates)
