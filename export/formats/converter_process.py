"""Start a converter in a child process, and find the layers of the nodes that it rejects."""

import re
from collections.abc import Iterable
from typing import Any

import keras

from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.named_layers import named_layers

TIMEOUT = 1800.0


def start_converter(script: str, form: str) -> WorkerProcess:
    """Start a converter in a child process, because some models make a converter end its process.

    The converter's memory and logging end with the process. Call this function early: the process
    then imports TensorFlow while the model is traced.

    Args:
        script: path of the worker script, relative to `formats/`.
        form: name of the target format, for messages.
    """
    return WorkerProcess(script, subject=f"conversion to {form}", timeout=TIMEOUT)


def layers_of(model: keras.Model, nodes: Iterable[str]) -> str:
    """Name the layers that the nodes of a graph belong to, for a message.

    Args:
        model: the model from which the graph was traced.
        nodes: names of the nodes, with TensorFlow's name scopes.
    """
    classes = {layer.name: type(layer).__name__ for _, layer in named_layers(model)}
    layers = dict.fromkeys(_layer_of(node, classes) for node in nodes)
    known = [f'layer "{name}" ({classes[name]})' for name in layers if name is not None]
    return ", ".join(known) or "the model itself"


def _layer_of(node: str, classes: dict[str, Any]) -> str | None:
    """Find the innermost layer in a node's name, such as "model_1/encoder_1/lstm_1/while"."""
    for scope in reversed(node.split("/")[:-1]):
        # Keras opens a layer's scope twice, so TensorFlow numbers the one in which it computes.
        for name in (re.sub(r"_\d+$", "", scope), scope):
            if name in classes:
                return name
    return None
