"""What converts a SavedModel, and which layers of the model the nodes come from that it refuses."""

import re
from collections.abc import Iterable
from typing import Any

import keras

from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.named_layers import named_layers

TIMEOUT = 1800.0


def start_converter(script: str, form: str) -> WorkerProcess:
    """Start a child process: some models make a converter end the process that it is in.

    It takes its memory and its logging with it. Started early, it imports TensorFlow while the
    model is traced.

    Args:
        script: the worker.
        form: what it converts to, for messages.
    """
    return WorkerProcess(script, subject=f"conversion to {form}", timeout=TIMEOUT)


def layers_of(model: keras.Model, nodes: Iterable[str]) -> str:
    """The layers that the nodes of a graph belong to, for a message.

    Args:
        model: the model that the graph was made from.
        nodes: names with TensorFlow's scopes.
    """
    classes = {layer.name: type(layer).__name__ for _, layer in named_layers(model)}
    layers = dict.fromkeys(_layer_of(node, classes) for node in nodes)
    known = [f'layer "{name}" ({classes[name]})' for name in layers if name is not None]
    return ", ".join(known) or "the model itself"


def _layer_of(node: str, classes: dict[str, Any]) -> str | None:
    """The innermost layer among a node's name scopes, "model_1/encoder_1/lstm_1/while"."""
    for scope in reversed(node.split("/")[:-1]):
        # Keras opens a layer's scope twice, so TensorFlow numbers the one in which it computes.
        for name in (re.sub(r"_\d+$", "", scope), scope):
            if name in classes:
                return name
    return None
