"""A model on a TensorFlow server, over gRPC."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from keras_norm.export.runners import Arrays
from keras_norm.export.serving.api import predict_request, require_serving_extra
from keras_norm.export.serving.client import Client

# gRPC's own limit of 4 MB is soon reached by sequences, and the server has none.
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class GrpcClient(Client):
    """A model on a TensorFlow server, over gRPC (port 8500), which carries every type exactly.

    Args:
        address: "host:port".
        model_name: what the server calls the model.
        signature_name: which of its signatures to run.
        version: a number; the label that the server has for one, as text; or None for the newest
            that is ready.
        timeout: seconds that one answer may take.

    Raises:
        ImportError: tensorflow-serving-api is not installed.
        RunnerError: no server answers, or it has no such model, version or signature.

    Example:
    ```python
    with GrpcClient("localhost:8500", "digits") as run:
        run({"rows": x_test[:2]})  # {"digit": array([...])}
    ```
    """

    name = "TensorFlow Serving (gRPC)"

    def _connect(self) -> None:
        require_serving_extra("GrpcClient")
        import grpc
        from tensorflow_serving.apis import prediction_service_pb2_grpc

        self._channel = grpc.insecure_channel(self.address, UNLIMITED)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    def _metadata(self) -> Mapping[str, Any]:
        from tensorflow_serving.apis import get_model_metadata_pb2 as protos

        request = protos.GetModelMetadataRequest(metadata_field=["signature_def"])
        answer = self._ask(self._stub.GetModelMetadata, request)
        signatures = protos.SignatureDefMap()
        answer.metadata["signature_def"].Unpack(signatures)
        return signatures.signature_def

    def _run(self, inputs: Arrays) -> Arrays:
        request = predict_request(inputs, self.inputs, self.signature_name)
        answer = self._ask(self._stub.Predict, request)
        return {name: _array(tensor) for name, tensor in answer.outputs.items()}

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def _ask(self, method: Callable[..., Any], request: Any) -> Any:
        import grpc

        request.model_spec.name = self.model_name
        if isinstance(self.version, str):
            request.model_spec.version_label = self.version
        elif self.version is not None:
            request.model_spec.version.value = self.version
        try:
            return method(request, timeout=self.timeout)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise self._error(f"no answer within {self.timeout:g} s") from error
            raise self._error(f"{error.details()} ({error.code().name})") from error


def _array(tensor: Any) -> np.ndarray:
    array: np.ndarray = tf.make_ndarray(tensor)
    return array.astype("float32") if array.dtype.name == "bfloat16" else array
