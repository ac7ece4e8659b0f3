"""Convert Keras layers of a model to normalized layers, or back, and keep the weights."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import rich.console
import rich.table

from keras_norm.clone import rebuild_model
from keras_norm.conversion.counterparts import (
    NORMS,
    RECURRENT,
    is_convertible,
    normalized,
    to_keras_layer,
)
from keras_norm.conversion.transfer import copy_compile_settings, copy_weights
from keras_norm.named_layers import named_layers
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.norm_rnn import NormRNN
from keras_norm.rnn.presets import PRESETS
from keras_norm.rnn.slots import NormArgument
from keras_norm.substitution import substituted_functions
from keras_norm.typing import Config

# Selects layers: by a name, a path such as "encoder/lstm", a class, or a function layer -> bool.
Selector: TypeAlias = str | type[keras.layers.Layer] | Callable[[keras.layers.Layer], bool]
Where: TypeAlias = Selector | list[Selector] | tuple[Selector, ...] | None
Layers: TypeAlias = Mapping[str, keras.layers.Layer]

TAG = "keras_norm_replacement"
# The cells and norms inside a layer of these classes belong to the layer. So `convert` never
# replaces a cell or a norm inside such a layer separately.
CLOSED = (*RECURRENT, NormRNN, NormCell)


def convert(
    model: keras.Model,
    norm: NormArgument | str = "layer",
    where: Where = None,
    *,
    verbose: bool = True,
    **options: Any,
) -> keras.Model:
    """Replace the Keras layers of a model by normalized layers, and keep the weights.

    LSTM, GRU and SimpleRNN become layers such as `LayerNormLSTM`, also inside Bidirectional,
    TimeDistributed, RNN and nested models. Keras' LayerNormalization, RMSNormalization and
    BatchNormalization become the layers of keras_norm, which compute equal outputs.

    Kernels and biases keep their values, and the new gammas and betas have their initial values. A
    norm changes the outputs, so accuracy drops until the model is trained on. A new model that
    is trained anew may end better: see the guide "From Keras layers to normalized layers". With
    `norm=None` all outputs stay equal. A GRU with a norm has one bias: the bias of U h in its
    candidate becomes the beta of `recurrent_candidate_norm`, and is dropped if there is no such
    beta. If the candidate's bias is zero, as in an untrained layer, the new layer keeps its own
    initial bias there.

    Args:
        model: a built model that Keras can rebuild from its config. It is not changed.
        norm: "layer", "rms" or "batch" for the layers of a paper, such as `LayerNormLSTM`; a
            normalization layer or a dict from slots to layers, as for `NormLSTM`; or None.
        where: the layers to convert: a name, a path such as "encoder/lstm", a class such as
            `keras.layers.LSTM`, a function layer -> bool, or a list of these. None converts all.
        verbose: whether to print a table of the converted layers, and that accuracy drops.
        **options: arguments of the layer of a paper, such as `epsilon`, or `max_timesteps` of
            "batch". The default of `max_timesteps` is the static number of timesteps.

    Returns:
        The converted model, with the names, the compile settings, the frozen parts and the states
        of stateful layers of the original model. The state of the optimizer is not copied.

    Raises:
        TypeError: `model` is not a Keras model, or an argument has another type.
        ValueError: no layer is selected, a layer cannot be converted, or the model cannot be
            rebuilt.

    Example:
        >>> model = keras.Sequential([keras.Input((5, 3)), keras.layers.LSTM(4, name="lstm")])
        >>> convert(model, "layer", verbose=False).get_layer("lstm").__class__.__name__
        'LayerNormLSTM'
    """
    if isinstance(norm, str) and norm not in (*PRESETS, "rms"):
        raise ValueError(
            "norm must be 'layer', 'rms', 'batch', None, a normalization layer, or a dict such as "
            f"{{'kernel_norm': layer, 'state_norm': layer}}. Received: norm={norm!r}."
        )
    found = _convertible_layers(
        model,
        is_convertible,
        "convert replaces LSTM, GRU, SimpleRNN, LayerNormalization, RMSNormalization and "
        "BatchNormalization of Keras, but not subclasses of these layers.",
    )
    selected = _select(found, where)
    replacements: dict[str, keras.layers.Layer] = {}
    for path, layer in selected.items():
        try:
            replacements[path] = normalized(layer, norm, options)
        except (TypeError, ValueError) as error:
            error.add_note(f"The error is about {type(layer).__name__} '{path}'")
            raise
    converted = _replace(model, selected, replacements)
    if verbose:
        _print_table(("keras.layers", "keras_norm"), selected, replacements)
        if norm is not None and any(type(layer) not in NORMS for layer in selected.values()):
            print("The norms change the outputs: accuracy drops until you train the new model.")
    return converted


def to_keras(model: keras.Model, *, verbose: bool = True) -> keras.Model:
    """Replace the layers of keras_norm by Keras layers that compute equal outputs.

    A recurrent layer with a norm inside does not change, because Keras has no equal layer. An
    RMSNormalization that passes a mask on does not change, because Keras' layer drops the mask.

    Args:
        model: a built model that Keras can rebuild from its config. It is not changed.
        verbose: whether to print a table of the converted layers.

    Returns:
        The converted model, with the names, weights and compile settings of the original model.

    Raises:
        TypeError: `model` is not a Keras model.
        ValueError: the model has no layer that Keras has too, or cannot be rebuilt.

    Example:
        >>> model = keras.Sequential([keras.Input((5, 3)), NormLSTM(4, name="lstm")])
        >>> to_keras(model, verbose=False).get_layer("lstm").__class__.__module__
        'keras.src.layers.rnn.lstm'
    """
    found = _convertible_layers(
        model,
        lambda layer: to_keras_layer(layer) is not None,
        "to_keras replaces a layer by Keras' own layer. It replaces recurrent layers that have no "
        "norm, and normalization layers whose options Keras has too. It does not replace an "
        "RMSNormalization whose inputs may have a mask, because keras.layers.RMSNormalization "
        "drops the mask.",
    )
    created = {path: to_keras_layer(layer) for path, layer in found.items()}
    replacements = {path: layer for path, layer in created.items() if layer}
    converted = _replace(model, found, replacements)
    if verbose:
        _print_table(("keras_norm", "keras.layers"), found, replacements)
    return converted


def _convertible_layers(
    model: keras.Model, condition: Callable[[keras.layers.Layer], bool], supported: str
) -> Layers:
    """Return a dict, path -> layer, of the layers of a model that fulfil a condition.

    The cells and the norms inside a recurrent layer belong to this layer, and are not collected.

    Args:
        model: a built model.
        condition: a function of a layer.
        supported: a sentence about the layers that fulfil the condition, for the error message.

    Raises:
        TypeError: `model` is not a Keras model.
        ValueError: the model is not built, or no layer fulfils the condition.
    """
    if not isinstance(model, keras.Model):
        raise TypeError(f"model must be a keras.Model. Received: {type(model).__name__}.")
    if not model.built:
        raise ValueError(f"Model '{model.name}' is not built. Call it once on data.")
    found: dict[str, keras.layers.Layer] = {}
    closed: list[str] = []
    for path, layer in named_layers(model):
        if any(path.startswith(f"{outer}/") for outer in closed):
            continue
        if condition(layer):
            found[path] = layer
        if path in found or isinstance(layer, CLOSED):
            closed.append(path)
    if not found:
        names = sorted({type(layer).__name__ for _, layer in named_layers(model)})
        raise ValueError(
            f"Model '{model.name}' has no layer to convert. Its layers are of the classes "
            f"{', '.join(names)}. {supported}"
        )
    return found


def _select(layers: Layers, where: Where) -> Layers:
    """Return the layers that `where` selects, by path.

    Raises:
        TypeError: a selector is of another type.
        ValueError: a selector selects no layer.
    """
    if where is None:
        return layers
    chosen: set[str] = set()
    selectors: Sequence[Selector] = where if isinstance(where, list | tuple) else [where]
    if not selectors:
        raise ValueError(
            f"where must name at least one layer. Received: where={where!r}. Pass None for all "
            "layers."
        )
    for selector in selectors:
        if not isinstance(selector, str) and not callable(selector):
            raise TypeError(
                "where must be a name, a path such as 'encoder/lstm', a class of layers, a "
                f"function layer -> bool, or a list of these. Received: where={selector!r}."
            )
        paths = [path for path, layer in layers.items() if _matches(selector, path, layer)]
        if not paths:
            raise ValueError(
                f"where={selector!r} selects no layer that can be converted. The model has: "
                f"{', '.join(layers)}."
            )
        chosen.update(paths)
    return {path: layer for path, layer in layers.items() if path in chosen}


def _matches(selector: Selector, path: str, layer: keras.layers.Layer) -> bool:
    if isinstance(selector, str):
        return selector in (path, layer.name) or path.startswith(f"{selector}/")
    if isinstance(selector, type):
        return isinstance(layer, selector)
    return bool(selector(layer))


def _replace(model: keras.Model, layers: Layers, replacements: Layers) -> keras.Model:
    """Rebuild a model with `replacements` in place of `layers`, and copy its weights.

    Args:
        model: a built model.
        layers: the layers to replace, by path.
        replacements: the new layers, not yet built, by the same paths.

    Raises:
        ValueError: a layer is not in the config of the model, or the model cannot be rebuilt.
    """
    serialized = {path: keras.saving.serialize_keras_object(r) for path, r in replacements.items()}
    unseen = set(layers)

    def tagged(path: str, layer: keras.layers.Layer) -> Callable[[], Config]:
        config = layer.get_config()
        return lambda: {**config, TAG: path}

    def change(part: Config) -> Config:
        config = part.get("config")
        if not isinstance(config, dict) or TAG not in config:
            return part
        unseen.discard(config[TAG])
        # Keep the entries of `part` that describe the layer's place in the model, such as
        # `inbound_nodes`. Remove `build_config`: with it, Keras would build the new layer as if
        # it was loaded from a file. A loaded layer does not warn of a norm of few features.
        beside = {name: value for name, value in part.items() if name != "build_config"}
        return {**beside, **serialized[config[TAG]]}

    def copy(model: keras.Model, converted: keras.Model) -> None:
        if unseen:
            path = min(unseen)
            owner = dict(named_layers(model)).get(path.rpartition("/")[0], model)
            where = [path for path in layers if path not in unseen]
            raise ValueError(
                f"{type(layers[path]).__name__} '{path}' is created by the code of "
                f"{type(owner).__name__}. Pass the layer to the constructor, and return "
                "keras.saving.serialize_keras_object(layer) in get_config; or create a "
                f"{type(replacements[path]).__name__} in {type(owner).__name__}"
                f"{f'; or leave this layer out: where={where}' if where else ''}. See the guide "
                '"From Keras layers to normalized layers"'
            )
        new = dict(named_layers(converted))
        copy_weights(model, converted, [(layer, new[path]) for path, layer in layers.items()])

    tags = {layer: {"get_config": tagged(path, layer)} for path, layer in layers.items()}
    with substituted_functions(tags):
        converted = rebuild_model(model, change, copy)
    copy_compile_settings(model, converted)
    return converted


def _print_table(packages: tuple[str, str], layers: Layers, replacements: Layers) -> None:
    """Print a table with the path, the old class and the new class of each layer."""
    columns = [rich.table.Column(name, overflow="fold") for name in ("layer", *packages)]
    table = rich.table.Table(*columns, box=None)
    for path, layer in layers.items():
        table.add_row(path, type(layer).__name__, type(replacements[path]).__name__)
    rich.console.Console().print(table)
