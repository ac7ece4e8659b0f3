"""The protocol buffers of TensorFlow Serving, which the extra `serving` brings."""

import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from keras_norm.export.signature import TensorSpec


def require_serving_extra(purpose: str) -> None:
    """Refuse to go on without tensorflow-serving-api.

    Args:
        purpose: what needs it, for the message.

    Raises:
        ImportError: it is not installed.
    """
    if importlib.util.find_spec("tensorflow_serving") is None:
        raise ImportError(
            f"{purpose} needs tensorflow-serving-api, which is not installed: "
            'pip install ".[serving]" in a clone of keras_norm'
        )


def predict_request(
    inputs: Mapping[str, np.ndarray], specs: Mapping[str, TensorSpec], signature_name: str
) -> Any:
    """A request to a server, which names no model yet.

    Args:
        inputs: name -> array, for every name in `specs`.
        specs: the signature's inputs; their types are the tensors'.
        signature_name: which signature is asked.

    Returns:
        A `PredictRequest`.
    """
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = signature_name
    for name, array in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(array, specs[name].dtype, array.shape))
    return request
