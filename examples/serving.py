"""Train an LSTM on handwritten digits, serve it with TensorFlow Serving, and check the server.

`python -m examples.serving export --to build/served` takes 15 seconds, and prints how to start
a server. The command `check` compares the server with the model.
"""

import argparse
import json
import pathlib

import grpc
import keras
import numpy as np
import requests
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

import keras_norm
from keras_norm.export import check, export_saved_model

NAME = "digits"
TIMEOUT = 60.0  # Seconds to wait for the server's reply.
# Allow messages of any length. The default limit of a gRPC client is 4 MB.
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
START = """Start the server:
docker run --rm -p 127.0.0.1:8500:8500 -p 127.0.0.1:8501:8501 \\
    --mount type=bind,source={folder},target=/models/{name} -e MODEL_NAME={name} tensorflow/serving
"""


def rest(url, model, outputs, signature="serving_default"):
    """Return a function that sends inputs to a server by REST (port 8501) and returns the outputs.

    `outputs` has the dtype of each output by name, because REST sends neither dtypes nor the name
    of a single output. REST does not support float16 and bfloat16. Texts are sent as UTF-8.
    """

    def run(inputs):
        columns = {name: np.asarray(array).tolist() for name, array in inputs.items()}
        body = json.dumps({"signature_name": signature, "inputs": columns}, default=bytes.decode)
        response = requests.post(f"{url}/v1/models/{model}:predict", body, timeout=TIMEOUT)
        if not response.ok:
            raise RuntimeError(f"{url} returned an error: {response.text}")
        values = response.json()["outputs"]
        values = dict.fromkeys(outputs, values) if len(outputs) == 1 else values
        return {name: np.asarray(values[name], dtype) for name, dtype in outputs.items()}

    run.__name__ = "TensorFlow Serving (REST)"
    return run


def rpc(address, model, signature="serving_default"):
    """Return a function that sends inputs to a server by gRPC (port 8500); see `rest`."""
    channel = grpc.insecure_channel(address, UNLIMITED)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

    def run(inputs):
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = model, signature
        for name, array in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
        response = stub.Predict(request, timeout=TIMEOUT)
        return {name: tf.make_ndarray(tensor) for name, tensor in response.outputs.items()}

    run.__name__ = "TensorFlow Serving (gRPC)"
    return run


def main(argv=None):
    """Run the command `export` (train, export) or `check` (the server); return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("export", "check"))
    parser.add_argument("--to", required=True, type=pathlib.Path, metavar="DIR", help="folder")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rest", default="http://localhost:8501", metavar="URL")
    parser.add_argument("--grpc", default="localhost:8500", metavar="ADDRESS")
    args = parser.parse_args(argv)
    import sklearn.datasets  # imported here: a user of `rest` and `rpc` needs no scikit-learn

    digits = sklearn.datasets.load_digits()
    x = digits.images.astype("float32") / 16.0
    if args.command == "export":
        keras.utils.set_random_seed(0)
        layers = [keras_norm.LayerNormLSTM(64), keras.layers.Dense(10, "softmax", name="digit")]
        model = keras.Sequential([keras.Input((None, 8), name="rows"), *layers])
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(x, digits.target, epochs=args.epochs, validation_split=0.2, verbose=2)
        export_saved_model(model, args.to / NAME, version=1, samples=x, warmup=True)
        model.save(args.to / f"{NAME}.keras")
        print(START.format(folder=(args.to / NAME).absolute(), name=NAME))
        return 0
    model = keras.models.load_model(args.to / f"{NAME}.keras")
    report = check(model, [rest(args.rest, NAME, {"digit": "float32"}), rpc(args.grpc, NAME)], x)
    report.print()
    return 0 if report else 1


if __name__ == "__main__":
    raise SystemExit(main())
