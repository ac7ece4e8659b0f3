"""List the batch normalizations of a model that can be recalibrated."""

import re
from collections import Counter

import keras

from keras_norm.named_layers import is_batch_norm, is_functional, named_layers
from keras_norm.recalibration.process_group import require_whole_weights


def trainable_norms(model: keras.Model) -> dict[str, keras.layers.Layer]:
    """Return the batch normalizations of a model that are not frozen, in a dict by path.

    Raises:
        TypeError: `model` is not a model.
        ValueError: the model is not built, has no batch normalization, or all are frozen; a weight
            is spread over several processes.
    """
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"model must be a Keras model. Received: {model!r}. Load a saved model with "
            "keras.saving.load_model."
        )
    if not model.built:
        raise ValueError(
            f"Model {model.name!r} is not built, so it has no statistics. Call it on data, or "
            "give it a keras.Input."
        )
    require_whole_weights(model)
    norms = dict(stable_norms(model))
    if not norms:
        raise ValueError(f"Model {model.name!r} has no batch normalization to recalibrate.")
    norms = {path: layer for path, layer in norms.items() if layer.trainable}
    if not norms:
        raise ValueError(
            f"All batch normalizations of model {model.name!r} are frozen. Set trainable=True "
            "on the layers to recalibrate."
        )
    return norms


def stable_norms(model: keras.Model) -> list[tuple[str, keras.layers.Layer]]:
    """List the batch normalizations of a model, each as (path, layer).

    The order is that of `batch_norms`. A layer that code creates, such as the cell of a
    BatchNormLSTM, gets a new number from Keras in each loaded model: "batch_norm_lstm_cell_3". The
    path has the name without the number. So saving and loading a model do not change its paths.
    """
    taken: Counter[tuple[int, str]] = Counter()

    def name_of(parent: keras.layers.Layer, child: keras.layers.Layer) -> str:
        # A functional or Sequential model saves the names of its layers. Loading keeps these names.
        name = str(child.name) if is_functional(parent) else _without_number(child)
        number = taken[id(parent), name]
        taken[id(parent), name] += 1
        return f"{name}_{number}" if number else name

    return [(path, layer) for path, layer in named_layers(model, name_of) if is_batch_norm(layer)]


def _without_number(layer: keras.layers.Layer) -> str:
    """Return the name of a layer without Keras' number: "lstm_cell" for "lstm_cell_3"."""
    name = re.sub(r"_\d+$", "", layer.name)
    from_class = name.replace("_", "") == type(layer).__name__.lower()
    return name if from_class else str(layer.name)
