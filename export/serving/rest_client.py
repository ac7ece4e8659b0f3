"""A model on a TensorFlow server, over its REST API."""

import json
import urllib.parse
from collections.abc import Mapping
from typing import Any

import numpy as np
import requests
from google.protobuf import json_format  # type: ignore[import-untyped]
from tensorflow.core.protobuf import meta_graph_pb2

from keras_norm.export.runners import Arrays
from keras_norm.export.serving.client import Client

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")


class RestClient(Client):
    """A model on a TensorFlow server, over its REST API (port 8501).

    Numbers arrive exactly, as both ends write as many digits as their type has; but for float64,
    of which the server's parser may miss the last digit. float16 and bfloat16 have no form in JSON
    that the server knows: `GrpcClient` carries them.

    Args:
        address: "http://host:port".
        model_name: what the server calls the model.
        signature_name: which of its signatures to run.
        version: a number; the label that the server has for one, as text; or None for the newest
            that is ready.
        timeout: seconds without a word of the answer.

    Raises:
        RunnerError: no server answers, or it has no such model, version or signature; or the
            signature has a type that JSON does not carry.

    Example:
    ```python
    with RestClient("http://localhost:8501", "digits") as run:
        run({"rows": x_test[:2]})  # {"digit": array([...])}
    ```
    """

    name = "TensorFlow Serving (REST)"
    types = frozenset(["bool", "float32", "float64", *INTEGERS])

    def _connect(self) -> None:
        self._session = requests.Session()
        self._url = f"{self.address.rstrip('/')}/v1/models/{_quoted(self.model_name)}"
        if self.version is not None:
            kind = "labels" if isinstance(self.version, str) else "versions"
            self._url += f"/{kind}/{_quoted(str(self.version))}"

    def _metadata(self) -> Mapping[str, Any]:
        found = self._ask("metadata", "GET", "/metadata")["signature_def"]["signature_def"]
        return {
            name: json_format.ParseDict(
                entry, meta_graph_pb2.SignatureDef(), ignore_unknown_fields=True
            )
            for name, entry in found.items()
        }

    def _run(self, inputs: Arrays) -> Arrays:
        columns = {name: array.tolist() for name, array in inputs.items()}
        # Python's JSON has NaN and infinity, as the server's.
        body = json.dumps({"signature_name": self.signature_name, "inputs": columns})
        outputs = self._ask("outputs", "POST", ":predict", body)
        if len(self.outputs) == 1:  # the server leaves the name of an only output out
            outputs = dict.fromkeys(self.outputs, outputs)
        return {name: np.asarray(outputs[name], t.dtype) for name, t in self.outputs.items()}

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _ask(self, key: str, method: str, suffix: str, body: str | None = None) -> Any:
        """What the server's answer has under `key`."""
        try:
            response = self._session.request(
                method, self._url + suffix, data=body, timeout=self.timeout
            )
        except requests.Timeout as error:
            raise self._error(f"no answer within {self.timeout:g} s") from error
        except requests.ConnectionError as error:
            raise self._error("no server answers", str(error)) from error
        except requests.RequestException as error:
            raise self._error(str(error)) from error
        try:
            answer = response.json()[key if response.ok else "error"]
        except (requests.JSONDecodeError, KeyError, TypeError) as error:
            raise self._error(
                f"HTTP status {response.status_code}, and not as a TensorFlow server answers",
                response.text,
            ) from error
        if not response.ok:
            raise self._error(str(answer))
        return answer


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")
