"""Refuse models that an exporter or a runtime does not support, and name their layers."""

import re
import warnings
from collections.abc import Container, Iterable, Sequence

import keras
import numpy as np

from keras_norm.export import signature
from keras_norm.export.errors import UnsupportedOpError
from keras_norm.named_layers import named_layers
from keras_norm_verify.printable import printable

# Patterns of the names that TensorFlow accepts. FIRST_SCOPE is for the names of models, and for
# the paths of weights, such as "lstm/kernel": they begin with a letter, a digit or ".". SCOPE is
# for the names of layers, such as "lstm": they may begin with other characters too, such as "_".
SCOPE = re.compile(r"[A-Za-z0-9_.\\/>-]*")
FIRST_SCOPE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


def warn_of_static_batch(model: keras.Model) -> None:
    """Warn if a Sequential model has a static batch size, such as the batch size of its first call.

    Only exporters may call this function: the warning names the line that called the exporter.
    """
    (batch, *_), *_ = (spec.shape for spec in signature.input_specs(model).values())
    if isinstance(model, keras.Sequential) and batch is not None:
        warnings.warn(
            f'model "{model.name}" has the static batch size {batch}, and the exported file will '
            "have the same batch size. For a dynamic batch size, begin the model with "
            "keras.Input(shape). A Sequential model without keras.Input has the batch size of its "
            "first call",
            stacklevel=4,  # show the user's line that called the exporter
        )


def refuse_unsupported_model(model: keras.Model) -> None:
    """Raise ValueError for a model that cannot be exported correctly to any format."""
    layers = list(named_layers(model))
    _refuse_names(model, layers)
    for path, layer in layers:
        if getattr(layer, "stateful", False):
            raise ValueError(
                f'layer "{path}" ({type(layer).__name__}) is stateful: all requests to a server '
                "would share its state. Build the model with stateful=False and a dynamic time "
                "dimension, keras.Input((None, ...)). Copy the weights with set_weights. The "
                'exported signature "step" takes the states as inputs and returns them'
            )
    # Refuse a model with a NaN weight, because all its outputs are NaN.
    for path, layer in layers:
        for weight in layer.weights:
            if "float" in weight.dtype and np.isnan(np.asarray(weight, "float32")).any():
                raise ValueError(
                    f'layer "{path}" has NaN in its weight "{weight.name}": the training diverged. '
                    "Load earlier weights, or train again with a smaller learning rate or with "
                    "clipped gradients"
                )


def _refuse_names(model: keras.Model, layers: Sequence[tuple[str, keras.Layer]]) -> None:
    """Raise ValueError if TensorFlow cannot save the name of the model, a layer or a weight."""
    if not FIRST_SCOPE.fullmatch(model.name):
        _refuse_name("model", model.name)
    for path, layer in layers:
        # Input layers need no check: the exporter makes their names valid (`signature.unique`).
        if not isinstance(layer, keras.layers.InputLayer) and not SCOPE.fullmatch(layer.name):
            _refuse_name("layer", path)
        for weight in layer.weights:
            if not FIRST_SCOPE.fullmatch(weight.path):
                _refuse_name("weight", weight.path)


def _refuse_name(kind: str, name: str) -> None:
    raise ValueError(
        f'TensorFlow cannot save the {kind} "{printable(name)}" under this name. Build the model '
        "with a name of the letters a to z, digits and underscores that begins with a letter, and "
        "copy the weights (set_weights)"
    )


def refuse_text(model: keras.Model, runtime: str) -> None:
    """Raise UnsupportedOpError if an input of the model is text, which `runtime` cannot read."""
    for name in signature.text_inputs(model):
        raise UnsupportedOpError(
            f'input "{name}" takes text, and {runtime} has no operations on text. Export the part '
            "of the model that takes numbers: preprocessing, core = "
            "keras_norm.export.split_text_model(model)"
        )


def refuse_half_precision(model: keras.Model, runtime: str, advice: str = "") -> None:
    """Raise UnsupportedOpError if a layer computes in float16 or bfloat16.

    The message names the `runtime`. It ends with the `advice`, after the advice to build the model
    in float32.
    """
    for path, layer in named_layers(model):
        if isinstance(layer, keras.layers.InputLayer):
            continue  # an input layer computes nothing, so its dtype does not matter
        if layer.compute_dtype in ("float16", "bfloat16"):
            raise UnsupportedOpError(
                f'layer "{path}" ({type(layer).__name__}) computes in {layer.compute_dtype}, which '
                f"{runtime} does not support. Build the model under the float32 policy and copy "
                f"the weights (set_weights){advice}"
            )


def name_layers(model: keras.Model, nodes: Iterable[str]) -> str:
    """Name the layers that created the given graph nodes, such as 'layer "lstm" (LSTM)'."""
    classes = {layer.name: type(layer).__name__ for _, layer in named_layers(model)}
    layers = dict.fromkeys(_layer_of_node(node, classes) for node in nodes)
    known = [f'layer "{name}" ({classes[name]})' for name in layers if name is not None]
    return ", ".join(known) or "the model itself"


def _layer_of_node(node: str, classes: Container[str]) -> str | None:
    """Return the innermost layer of a node: "lstm" for "model_1/encoder_1/lstm_1/while"."""
    for scope in reversed(node.split("/")[:-1]):
        # Keras opens the scope of a layer twice. For the layer "lstm", TensorFlow names the scopes
        # "lstm" and "lstm_1". So the scope "lstm_1" is the layer "lstm", if the model has it.
        # Otherwise the scope "lstm_1" is the layer "lstm_1".
        for name in (re.sub(r"_\d+$", "", scope), scope):
            if name in classes:
                return name
    return None
