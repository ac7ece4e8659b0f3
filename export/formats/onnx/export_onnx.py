"""Write a Keras model as an ONNX file, and run it before it is used."""

import os
import pathlib
import shutil
import tempfile
from typing import Any

import keras

from keras_norm.export.errors import ConversionError, RunnerError, UnsupportedOpError
from keras_norm.export.formats.converter_process import layers_of, start_converter
from keras_norm.export.formats.golden_cases import make_proof, write_proof
from keras_norm.export.formats.onnx.onnx_runner import ONNXRunner
from keras_norm.export.formats.refusals import (
    refuse_half_precision,
    refuse_text,
    refuse_unfit,
    warn_of_fixed_batch,
)
from keras_norm.export.formats.saved_model.export_saved_model import write_saved_model
from keras_norm.export.formats.staging import staged
from keras_norm.export.formats.verify_file import verify_file
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.export.model.reference import make_reference
from keras_norm.export.optional_packages import require
from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm.ops.scan import exported_loops
from keras_norm_verify import BESIDE


def export_onnx(
    model: keras.Model,
    path: str | os.PathLike[str],
    *,
    samples: Any = None,
    proof: bool = True,
    overwrite: bool = False,
) -> pathlib.Path:
    """Write `model` as an ONNX file, in inference mode.

    It is converted by tf2onnx, as Keras' own exporter does it, with inputs and outputs named
    (`keras_norm.export.signature`) as in the other formats. Batch, time and every other size that
    the model leaves open stay open. The conversion is done in a child process, and the file moved
    into place only after it ran in ONNX Runtime, at two batch sizes and lengths at least, and gave
    what the Keras model gives.

    Args:
        model: a functional or a built sequential model.
        path: file to write, ending in ".onnx"; missing parent folders are made.
        samples: real ones, arrays (samples, ...) by input name, or one array for one input, which
            the file is run on: up to 3 of them. None for random ones.
        proof: whether to store golden cases for `keras-norm verify` beside the file, in a file of
            its name and ".proof.npz".
        overwrite: whether it takes the place of a file that stands there.

    Returns:
        The file written.

    Raises:
        FileExistsError: the file exists, and `overwrite` is False.
        OSError: it cannot be written: no permission, a full disk.
        UnsupportedOpError: an operation has no ONNX form; the message names it and its layers.
        VerificationError: the file runs and computes something else than the model.
        ConversionError: tf2onnx failed or died.
        RunnerError: the file was converted and does not run.
        ImportError: tf2onnx, onnx or onnxruntime is not installed.
        ValueError: the model has no fixed inputs, a weight that is NaN, an input of text, a
            stateful layer, or one that computes in float16 or bfloat16; the model does not take the
            `samples`; `path` does not end in ".onnx".

    Example:
    ```python
    inputs = keras.Input((None, 8), name="rows")  # any batch, any length
    model = keras.Model(inputs, keras_norm.LayerNormLSTM(16)(inputs))
    export_onnx(model, "digits.onnx")
    ```
    """
    target = pathlib.Path(path)
    if not isinstance(proof, bool):
        raise ValueError(f"proof must be True or False; received {proof!r}")
    if target.suffix != ".onnx":
        raise ValueError(f'the file name must end in ".onnx"; received {target}')
    require("onnx", "tf2onnx")
    refuse_text(model, "ONNX Runtime")
    refuse_unfit(model)
    warn_of_fixed_batch(model)
    # bfloat16 becomes a file of mixed types, and float16 rounds in other places than Keras does.
    refuse_half_precision(model, "the ONNX converter")
    # TensorFlow reads some characters of a path as a pattern, so it gets a path without any.
    with (
        staged(target, overwrite, beside=target.name + BESIDE) as file,
        tempfile.TemporaryDirectory() as folder,
    ):
        with start_converter("onnx/convert_onnx.py", "ONNX") as converter:
            reference = make_reference(model, samples)
            saved_model = pathlib.Path(folder, "saved_model")
            converted = pathlib.Path(folder, "model.onnx")
            with portable_layers(model), exported_loops("onnx"):
                write_saved_model(model, saved_model)
            try:
                request = {"saved_model": str(saved_model), "path": str(converted)}
                unknown = converter.load(request)["unknown"]
            except RunnerError as error:
                raise ConversionError(str(error)) from error
        if unknown:
            listed = "; ".join(f"{op} in {layers_of(model, n)}" for op, n in unknown.items())
            raise UnsupportedOpError(
                f"tf2onnx has no ONNX form of {listed}. Replace the layer", unknown
            )
        shutil.copyfile(converted, file)
        answers = {SERVING_DEFAULT: verify_file(file, ONNXRunner, reference)}
        if proof:
            write_proof(file, make_proof(reference, answers=answers))
    return target
