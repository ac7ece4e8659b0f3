"""Requests that TensorFlow Serving runs when it loads a model, before anybody waits for it."""

import importlib.util
import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.comparing.cases import Samples, read_samples
from keras_norm.export.errors import one_line
from keras_norm.export.exporting.streaming import Step
from keras_norm.export.runners import KerasRunner
from keras_norm.export.signature import SERVING_DEFAULT, STEP, TensorSpec

# Where the server looks for them in a SavedModel.
WARMUP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")

# How many samples go alone, and how many at most go together. (A server takes 1000 requests.)
ALONE, TOGETHER = 3, 32


def warmup_requests(model: keras.Model, data: Any, step: Step | None = None) -> list[Any]:
    """Requests for `serving_default` and `step`: the first samples one by one, then many together.

    A request names its signature and no model: the server replays it on the model it stands in,
    whatever the server calls that.

    Args:
        model: the Keras model.
        data: real samples: arrays (samples, ...) by input name, or one array for one input. Up to 3
            are sent alone, up to 32 together; a model with a fixed batch gets one request.
        step: the model timestep by timestep, where the export has a signature `step`; it is asked
            for the first timestep of the same samples.

    Returns:
        A `PredictRequest` for each.

    Raises:
        ImportError: tensorflow-serving-api is not installed.
        ValueError: the data do not fit, or the model refuses them. (A server that fails on one
            of the requests does not load the model.)
    """
    if importlib.util.find_spec("tensorflow_serving") is None:
        raise ImportError(
            "warmup needs tensorflow-serving-api, which is not installed: "
            'pip install ".[serving]" in a clone of keras_norm'
        )
    specs = signature.input_specs(model)
    samples = read_samples(specs, data)
    run = KerasRunner(model)
    requests = []
    for rows in _batches(samples):
        inputs = samples.take([row % samples.count for row in rows])
        try:
            run(inputs)
        except Exception as error:
            raise ValueError(
                f"the model refuses the samples given as warmup: {one_line(error)}"
            ) from error
        requests.append(_request(inputs, specs, SERVING_DEFAULT))
        if step is not None:
            first = {n: a[:, 0] if n in step.sequences else a for n, a in inputs.items()}
            given = first | step.initial_states(len(rows))
            requests.append(_request(given, step.inputs | step.states, STEP))
    return requests


def write_warmup(folder: pathlib.Path, requests: list[Any]) -> None:
    """Write requests into a SavedModel.

    Args:
        folder: the SavedModel's.
        requests: each a `PredictRequest`.
    """
    from tensorflow_serving.apis import prediction_log_pb2

    file = folder / WARMUP_FILE
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        for request in requests:
            log = prediction_log_pb2.PredictLog(request=request)
            record = prediction_log_pb2.PredictionLog(predict_log=log)
            writer.write(record.SerializeToString())


def _request(
    inputs: Mapping[str, np.ndarray], specs: Mapping[str, TensorSpec], signature_name: str
) -> Any:
    """A `PredictRequest` that names no model; its types are those of the signature's inputs."""
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = signature_name
    for name, array in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(array, specs[name].dtype, array.shape))
    return request


def _batches(samples: Samples) -> list[np.ndarray]:
    """Rows of the samples that are sent together."""
    if samples.batch is not None:
        return [np.arange(samples.batch)]
    rows = np.arange(samples.count)
    return [*np.split(rows[:ALONE], min(ALONE, samples.count)), rows[:TOGETHER]]
