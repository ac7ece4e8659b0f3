"""A fake TensorFlow Serving with REST and gRPC ports, for tests without the real server.

It follows the documentation and the protocol buffers of TensorFlow Serving, and not the code of our
clients. It reads the requests of the guides: predictions in rows or columns, the status and the
metadata. A request for an unknown model is answered as by the server; another wrong request fails
the test. Models run through the C API.
"""

import concurrent.futures
import contextlib
import http.server
import json
import re
import threading

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from grpc import StatusCode
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import get_model_metadata_pb2 as metadata_pb2
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc as service

from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner


class NotFoundError(Exception):
    """An error response for an unknown model or version."""


class Store:
    """Served models: folders by name and version."""

    def __init__(self, folders):
        self.folders = folders
        self._runners = {}
        self._lock = threading.Lock()  # a runner takes one request at a time

    def find(self, name, version=None):
        versions = self.folders.get(name, {})
        requested = f"Latest({name})" if version is None else f"Specific({name}, {version})"
        version = max(versions, default=None) if version is None else version
        if version not in versions:
            raise NotFoundError(f"Servable not found for request: {requested}")
        return version, versions[version]

    def signatures(self, folder):
        saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
        return saved.meta_graphs[0].signature_def

    def predict(self, folder, name, arrays):
        assert set(arrays) == set(self.signatures(folder)[name].inputs)
        with self._lock:
            if (folder, name) not in self._runners:
                self._runners[folder, name] = CApiRunner(folder, name)
            return self._runners[folder, name](arrays)

    def close(self):
        for runner in self._runners.values():
            runner.close()

    def metadata(self, name, version):
        version, folder = self.find(name, version)
        found = metadata_pb2.SignatureDefMap()
        for signature, definition in self.signatures(folder).items():
            found.signature_def[signature].CopyFrom(definition)
        response = metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = name
        response.model_spec.version.value = version
        response.metadata["signature_def"].Pack(found)
        return response, found


class Service(service.PredictionServiceServicer):
    def __init__(self, store):
        self.store = store

    def Predict(self, request, context):  # noqa: N802  # name given by gRPC
        spec = request.model_spec
        try:
            version, folder = self.store.find(
                spec.name, spec.version.value if spec.HasField("version") else None
            )
        except NotFoundError as error:
            context.abort(StatusCode.NOT_FOUND, str(error))
        name = spec.signature_name or "serving_default"
        arrays = {n: tf.make_ndarray(tensor) for n, tensor in request.inputs.items()}
        outputs = self.store.predict(folder, name, arrays)
        types = self.store.signatures(folder)[name].outputs
        response = predict_pb2.PredictResponse()
        response.model_spec.name = spec.name
        response.model_spec.version.value = version
        for output, array in outputs.items():
            tensor = tf.make_tensor_proto(array, types[output].dtype, array.shape)
            if array.dtype == np.float32 and tensor.dtype == tf.float32.as_datatype_enum:
                tensor.ClearField("tensor_content")  # TensorFlow Serving fills float_val
                tensor.ClearField("float_val")
                tensor.float_val.extend(array.ravel())
            response.outputs[output].CopyFrom(tensor)
        return response


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._respond(self._get)

    def do_POST(self):
        self._respond(self._post)

    def _respond(self, method):
        status = 200
        try:
            text = method()
        except NotFoundError as error:
            status, text = 404, json.dumps({"error": str(error)}, indent=4)
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _model_spec(self, ending):
        path = r"/v1/models/([^/:]+)(?:/versions/(\d+))?" + ending
        name, version = re.fullmatch(path, self.path).groups()
        return name, version and int(version)

    def _get(self):
        if not self.path.endswith("/metadata"):
            version, _ = self.store.find(*self._model_spec(""))
            status = {"error_code": "OK", "error_message": ""}
            status = {"version": str(version), "state": "AVAILABLE", "status": status}
            return json.dumps({"model_version_status": [status]}, indent=1)
        response, signatures = self.store.metadata(*self._model_spec("/metadata"))
        options = {
            "preserving_proto_field_name": True,
            "always_print_fields_with_no_presence": True,
        }
        spec = json_format.MessageToJson(response.model_spec, **options)
        definitions = json_format.MessageToJson(signatures, **options)
        return f'{{\n"model_spec":{spec},\n"metadata": {{"signature_def": {definitions}}}\n}}\n'

    def _post(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        _, folder = self.store.find(*self._model_spec(":predict"))
        request = json.loads(body)
        name = request.get("signature_name", "serving_default")
        signature = self.store.signatures(folder)[name]
        rows = "instances" in request
        columns = request["instances" if rows else "inputs"]
        if not isinstance(columns, dict):
            columns = {next(iter(signature.inputs)): columns}
        arrays = {
            n: _tensor(columns[n], entry.dtype)
            for n, entry in signature.inputs.items()
            if n in columns
        }
        outputs = {n: a.tolist() for n, a in self.store.predict(folder, name, arrays).items()}
        if not rows:
            return json.dumps({"outputs": _only(outputs)}, indent=4)
        batch = zip(*outputs.values(), strict=True)
        predictions = [_only(dict(zip(outputs, row, strict=True))) for row in batch]
        return json.dumps({"predictions": predictions}, indent=4)


def _only(values):
    """Return values by name; a single value has no name."""
    return next(iter(values.values())) if len(values) == 1 else values


def _tensor(value, dtype):
    """Convert a JSON value to an array; the server converts no float to an integer."""
    dtype, array = tf.dtypes.as_dtype(dtype), np.array(value)
    kinds = (
        "U" if dtype == tf.string else "b" if dtype.is_bool else "iu" if dtype.is_integer else "iuf"
    )
    assert array.dtype.kind in kinds
    return array if dtype == tf.string else array.astype(dtype.as_numpy_dtype)


@contextlib.contextmanager
def fake_server(folders):
    """Run the fake server, and yield its REST port and its gRPC port."""
    store = Store(folders)
    rest = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Bound", (Handler,), {"store": store})
    )
    rest.daemon_threads = True
    thread = threading.Thread(target=rest.serve_forever)
    thread.start()
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    rpc = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=unlimited)
    service.add_PredictionServiceServicer_to_server(Service(store), rpc)
    port = rpc.add_insecure_port("127.0.0.1:0")
    rpc.start()
    try:
        yield rest.server_port, port
    finally:
        rest.shutdown()
        rest.server_close()
        thread.join()
        rpc.stop(0).wait()
        store.close()
