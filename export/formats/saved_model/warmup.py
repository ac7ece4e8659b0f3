"""Write requests that TensorFlow Serving runs when it loads a model, before the first client."""

import pathlib
from collections.abc import Iterable

import tensorflow as tf

from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.golden_cases.golden_cases import GoldenCase

# Path in the SavedModel from which TensorFlow Serving reads the warmup requests.
WARMUP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")


def write_warmup(folder: pathlib.Path, cases: Iterable[GoldenCase]) -> None:
    """Write one warmup request for each golden case into a SavedModel.

    The request for a stream has the first timestep only. A request names its signature but no
    model: the server runs the request on the model of its folder, under any model name.

    Args:
        folder: the SavedModel's folder.
        cases: golden cases of the SavedModel.
    """
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    file = folder / WARMUP_FILE
    file.parent.mkdir(exist_ok=True)
    saved_model = SavedModelFile(folder)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for case in cases:
            specs, _ = saved_model.ends(case.signature)
            request = predict_pb2.PredictRequest()
            request.model_spec.signature_name = case.signature
            for name, array in case.inputs.items():
                first = array[:, 0] if name in case.sequences else array
                tensor = tf.make_tensor_proto(first, specs[name].dtype, first.shape)
                request.inputs[name].CopyFrom(tensor)
            log = prediction_log_pb2.PredictLog(request=request)
            record = prediction_log_pb2.PredictionLog(predict_log=log)
            writer.write(record.SerializeToString())
