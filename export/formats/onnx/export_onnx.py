"""Write a Keras model as an ONNX file, and verify the file."""

import os
import pathlib
import shutil
import tempfile

import keras

from keras_norm.export.errors import ConversionError, RunnerError, UnsupportedOpError
from keras_norm.export.formats.onnx.onnx_runner import ONNXRunner
from keras_norm.export.formats.refusals import (
    name_layers,
    refuse_half_precision,
    refuse_text,
    refuse_unsupported_model,
    warn_of_static_batch,
)
from keras_norm.export.formats.saved_model.write_saved_model import write_saved_model
from keras_norm.export.formats.staging import staged
from keras_norm.export.formats.verification import (
    make_golden_cases,
    verify_file,
    write_golden_cases,
)
from keras_norm.export.model.judge import judge_for_export
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.export.model.other_backends import runs_on_tensorflow
from keras_norm.export.packages import require
from keras_norm.export.runtimes.worker_process import CONVERSION_SECONDS, WorkerProcess
from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm.ops import tensorflow_scan
from keras_norm.substitution import Substitutes
from keras_norm.typing import TensorLike
from keras_norm_verify.artifact import SUFFIX

# Functions that replace functions of keras_norm while a model is traced for an ONNX file. The new
# loop over time runs one timestep in each iteration. tf2onnx cannot convert the original loop,
# which runs several timesteps in each iteration.
ONNX_FUNCTIONS: Substitutes = {
    tensorflow_scan: {
        "scan_by_block": lambda step, xs, carry, like, independent_rows=False: (
            tensorflow_scan.scan_by_step(step, xs, carry, like)
        )
    }
}


@runs_on_tensorflow
def export_onnx(
    model: keras.Model,
    path: str | os.PathLike[str],
    *,
    samples: TensorLike = None,
    golden_cases: bool = True,
    overwrite: bool = False,
) -> pathlib.Path:
    """Write `model` as an ONNX file in inference mode, and compare its outputs with the model's.

    A child process converts the model with tf2onnx, which Keras' own exporter uses too. Inputs and
    outputs have the names that they have in other formats. Batch, time and every other dynamic
    dimension of the model stay dynamic. The exporter then runs the file in ONNX Runtime, with at
    least two batch sizes and lengths, and compares its outputs with the Keras model's. Only a file
    that passes is moved to `path`.

    With another backend than TensorFlow, a child process runs this function: see the guide
    "Export models trained on JAX or PyTorch".

    Args:
        model: a functional or a built sequential model.
        path: file to write, ending in ".onnx". Missing parent folders are created.
        samples: real test inputs: arrays (samples, ...) by input name, or an array for a model with
            one input. The exporter runs the file on up to 3 samples. None: random inputs.
        golden_cases: whether to store golden cases for `keras-norm verify` beside the file, in a
            file of its name and ".golden.npz".
        overwrite: whether to replace an existing file and its golden cases.

    Returns:
        The file written.

    Raises:
        FileExistsError: the file, or a file at the path of its golden cases, exists, and
            `overwrite` is False.
        OSError: the file cannot be written: no permission, a full disk.
        UnsupportedOpError: ONNX lacks an operation. The message names the operation and its layers.
        VerificationError: the file runs, and its outputs differ from the model's.
        ConversionError: tf2onnx failed or died.
        RunnerError: the file was converted and does not run, or the child process of another
            backend died.
        ImportError: tf2onnx, onnx or onnxruntime is not installed.
        ValueError: the model has no fixed inputs, a weight that is NaN, a text input, a stateful
            layer, or a layer that computes in float16 or bfloat16; the model does not accept the
            `samples`; `path` does not end in ".onnx".

    Example:
        >>> rows = keras.Input((None, 8), name="rows")  # any batch, any length
        >>> model = keras.Model(rows, keras_norm.LayerNormLSTM(16)(rows))
        >>> export_onnx(model, "digits.onnx").name
        'digits.onnx'
    """
    target = pathlib.Path(path)
    if not isinstance(golden_cases, bool):
        raise ValueError(f"golden_cases must be True or False; received {golden_cases!r}")
    if target.suffix != ".onnx":
        raise ValueError(f'path must end in ".onnx"; received {target}')
    require("onnx", "tf2onnx")
    refuse_text(model, "ONNX Runtime")
    refuse_unsupported_model(model)
    warn_of_static_batch(model)
    # Refuse models in half precision. The ONNX file of a bfloat16 model would have operations whose
    # inputs have different float types. The ONNX file of a float16 model would not return Keras'
    # outputs: the file and Keras round different intermediate results.
    refuse_half_precision(model, "the ONNX converter")
    # TensorFlow reads some characters of a path, such as "*", as a pattern. So the SavedModel
    # is written to a temporary path, which has no such characters.
    with (
        staged(target, overwrite, beside=target.name + SUFFIX) as file,
        tempfile.TemporaryDirectory() as folder,
    ):
        with WorkerProcess(
            "onnx/convert_onnx.py", subject="conversion to ONNX", timeout=CONVERSION_SECONDS
        ) as converter:
            judge = judge_for_export(model, samples)
            saved_model = pathlib.Path(folder, "saved_model")
            converted = pathlib.Path(folder, "model.onnx")
            with portable_layers(model, ONNX_FUNCTIONS):
                write_saved_model(model, saved_model)
            try:
                options = {"saved_model": str(saved_model), "path": str(converted)}
                unsupported = converter.load(options)["unsupported"]
            except RunnerError as error:
                raise ConversionError(str(error)) from error
        if unsupported:
            ops = "; ".join(f"{op} in {name_layers(model, n)}" for op, n in unsupported.items())
            raise UnsupportedOpError(
                f"tf2onnx cannot convert {ops}. Replace the layer", unsupported
            )
        shutil.copyfile(converted, file)
        outputs = {SERVING_DEFAULT: verify_file(file, ONNXRunner, judge)}
        if golden_cases:
            write_golden_cases(file, make_golden_cases(judge, outputs=outputs))
    return target
