"""Write a Keras model as a SavedModel for TensorFlow Serving."""

import logging
import os
import pathlib
from collections.abc import Iterable, Mapping

import keras
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.compare.samples import is_whole
from keras_norm.export.errors import UnsupportedOpError
from keras_norm.export.formats.refusals import refuse_unsupported_model, warn_of_static_batch
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.saved_model.write_saved_model import (
    SignatureFunction,
    require_functions,
    write_saved_model,
)
from keras_norm.export.formats.staging import staged
from keras_norm.export.formats.verification import (
    judge_if_it_runs,
    make_golden_cases,
    verify_saved_model,
    write_golden_cases,
)
from keras_norm.export.model.find_step import find_step
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.export.model.other_backends import runs_on_tensorflow
from keras_norm.export.packages import require
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm.typing import TensorLike
from keras_norm_verify.golden_cases import GoldenCase
from keras_norm_verify.saved_model import require_literal
from keras_norm_verify.unsafe_ops import describe_unsafe_ops

logger = logging.getLogger("keras_norm.export")

LAST_VERSION = 2**63 - 1
# Path in the SavedModel from which TensorFlow Serving reads the warmup requests.
WARMUP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")


@runs_on_tensorflow
def export_saved_model(
    model: keras.Model,
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    step: bool | None = None,
    signatures: Mapping[str, SignatureFunction] | None = None,
    samples: TensorLike = None,
    golden_cases: bool = True,
    warmup: bool = False,
    overwrite: bool = False,
) -> pathlib.Path:
    """Write `model` as a SavedModel in inference mode, and compare its outputs with the model's.

    The SavedModel has the signature `serving_default`, which runs whole sequences. It can also have
    the signature `step`, which runs one timestep from given states (`keras_norm.export.Step`), and
    the functions in `signatures`.

    Inputs and outputs have the same names in every format. Batch, time and every other dynamic
    dimension of the model stay dynamic. The SavedModel runs without Keras, this package, XLA, a GPU
    or a custom op. For this, the exporter writes Keras' recurrent layers as equivalent layers of
    this package.

    The folder appears in one step, after the outputs were compared with the Keras model's. A server
    that polls the folder therefore never sees an incomplete model. The exporter skips this
    comparison if `samples` is None and the model refuses random inputs: it logs a warning.

    With another backend than TensorFlow, a child process runs this function: see the guide
    "Export models trained on JAX or PyTorch".

    Args:
        model: a functional or a built sequential model.
        path: folder to write. Missing parent folders are created.
        version: an integer of at least 1. The exporter then writes `path/VERSION/`, the layout
            that TensorFlow Serving polls. None writes `path`.
        step: whether to write the step signature, which is tested before it is written. None writes
            it if the model runs forward in time and its number of timesteps is dynamic, and
            otherwise logs the reason at the level INFO.
        signatures: more signatures by name. A signature is a function from a dict of the model's
            inputs by name to a dict of tensors, or a `tf.function` with its own `input_signature`.
        samples: real test inputs: arrays (samples, ...) by input name, or an array for a model with
            one input. The exporter runs the SavedModel on up to 3 samples. None: random numbers,
            and texts of random words from the vocabularies of the model.
        golden_cases: whether to store golden cases for `keras-norm verify`, in `assets.extra`.
        warmup: whether TensorFlow Serving runs the golden cases when it loads the model, so that
            the first client does not wait.
        overwrite: whether to replace an existing SavedModel. The exporter never replaces a
            `version`, because a server may have loaded it.

    Returns:
        `path`, or `path/VERSION`: the folder written.

    Raises:
        FileExistsError: the folder exists and `overwrite` is False; or `overwrite` is True and the
            folder is not a SavedModel, or is a version.
        ImportError: `warmup` is True, and tensorflow-serving-api is not installed.
        OSError: the folder cannot be written: no permission, a full disk.
        VerificationError: the SavedModel's outputs differ from the model's.
        UnsupportedOpError: a layer uses an operation that a server may lack: an XLA op, a
            function with `jit_compile`, a custom op, or an op without a CPU kernel. Or a layer uses
            an operation that may access files, the Python process or other machines.
        RunnerError: the child process of another backend died.
        StreamingError: `step` is True, and the model cannot run timestep by timestep.
        ValueError: the model has no fixed inputs, a weight that is NaN, or a stateful layer, whose
            state all requests to a server would share; `version` is not a positive integer; `path`
            has the suffix of a file, or a character that TensorFlow reads as a pattern; a name in
            `signatures` is reserved; the model does not accept the `samples`; `warmup` is True and
            there are no test inputs; the model or a signature reads a table that is not an
            attribute of a layer.

    Example:
        >>> str(export_saved_model(model, "served/digits", version=1))
        'served/digits/1'
    """
    signature.input_specs(model)
    refuse_unsupported_model(model)
    warn_of_static_batch(model)
    if not isinstance(golden_cases, bool):
        raise ValueError(f"golden_cases must be True or False; received {golden_cases!r}")
    if not isinstance(warmup, bool):
        raise ValueError(f"warmup must be True or False; received {warmup!r}")
    signatures = {} if signatures is None else signatures
    require_functions(signatures)
    taken = {SERVING_DEFAULT, STEP} & set(signatures)
    if taken:
        raise ValueError(
            f"the exporter reserves the signature name {taken.pop()}; choose another name"
        )
    target = _target(path, version)
    if overwrite and target.exists():
        require_replaceable(target, version)
    if warmup:
        require("serving")
    with staged(target, overwrite, is_folder=True) as folder:
        judge = judge_if_it_runs(model, samples)
        if warmup and not judge:
            raise ValueError(
                "warmup=True needs test inputs, and the model does not run on random inputs; give "
                "samples={input name: array}"
            )
        with portable_layers(model):
            stepper = find_step(model, step, judge)
            write_saved_model(model, folder, stepper, signatures)
        _refuse_unservable(folder)
        if judge:
            over_time = None if stepper is None else stepper.over_time
            if not verify_saved_model(folder, judge, over_time):
                logger.warning(
                    'two calls of the model "%s" with equal inputs return different outputs: the '
                    "model is random in inference, or changes a variable. The exporter did not "
                    "compare these outputs with the file. It stored no test inputs and outputs "
                    "(golden cases) for keras-norm verify",
                    model.name,
                )
                golden_cases = False
            cases = make_golden_cases(judge, stepper)
            if golden_cases:
                write_golden_cases(folder, cases)
            if warmup:
                _write_warmup(folder, cases.cases)
    return target


def _refuse_unservable(folder: pathlib.Path) -> None:
    file = SavedModelFile(folder)
    if ops := file.unsafe_ops:
        raise UnsupportedOpError(
            "keras-norm check and keras-norm verify would not run the exported model, because "
            f"{describe_unsafe_ops(ops)}. Build the model without the layers that contain these "
            "operations",
            ops,
        )
    if ops := file.unservable_ops:
        listed = "; ".join(f"{op} in {', '.join(sorted(set(n)))}" for op, n in ops.items())
        raise UnsupportedOpError(
            f"a TensorFlow server may not support these operations of the model: {listed}. Replace "
            "the layer that contains them, or build it without jit_compile",
            ops,
        )


def _write_warmup(folder: pathlib.Path, cases: Iterable[GoldenCase]) -> None:
    """Write a warmup request for each golden case (a stored test input) into a SavedModel.

    TensorFlow Serving runs the requests when it loads the model, before the first client. The
    request for a stream has the first timestep only. A request names its signature but no model:
    the server runs the request on the model of its folder, under any model name.
    """
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    file = folder / WARMUP_FILE
    file.parent.mkdir(exist_ok=True)
    saved_model = SavedModelFile(folder)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for case in cases:
            specs, _ = saved_model.read_signature(case.signature)
            request = predict_pb2.PredictRequest()
            request.model_spec.signature_name = case.signature
            for name, array in case.inputs.items():
                first = array[:, 0] if name in case.sequences else array
                tensor = tf.make_tensor_proto(first, specs[name].dtype, first.shape)
                request.inputs[name].CopyFrom(tensor)
            log = prediction_log_pb2.PredictLog(request=request)
            record = prediction_log_pb2.PredictionLog(predict_log=log)
            writer.write(record.SerializeToString())


def require_replaceable(target: pathlib.Path, version: int | None) -> None:
    """Raise FileExistsError if `target` exists and the exporter must not overwrite it.

    The exporter overwrites neither a path that is not a SavedModel, nor a version that a server may
    have loaded. A folder whose name is a number is a version too, even if `version` is None.
    """
    if version is not None or target.name.isdecimal():
        raise FileExistsError(
            f"{target} exists, and a server may have loaded this version, so it is never "
            "overwritten; give a higher version"
        )
    if not (target / "saved_model.pb").is_file():
        raise FileExistsError(
            f"{target} is not a SavedModel, so it is not overwritten; choose another path"
        )


def _target(path: str | os.PathLike[str], version: int | None) -> pathlib.Path:
    folder = require_literal(pathlib.Path(path))
    if folder.suffix in {".keras", ".h5", ".pb", ".tflite"}:
        raise ValueError(
            f"a SavedModel is a folder; received the file name {folder}. Give a path without "
            f"{folder.suffix}"
        )
    if version is None:
        return folder
    if not is_whole(version) or version < 1:
        raise ValueError(f"version must be an integer of at least 1; received {version!r}")
    if version > LAST_VERSION:
        raise ValueError(
            f"version must be at most {LAST_VERSION}, because TensorFlow Serving reads it as a "
            f"64-bit integer; received {version}"
        )
    if (folder / "saved_model.pb").exists():
        raise FileExistsError(
            f"{folder} is a SavedModel, so no version can be written inside it; choose another "
            "folder"
        )
    return folder / str(version)
