"""Convert a Keras model to a TFLite file, without a check of the file's outputs."""

import pathlib
import tempfile
from contextlib import AbstractContextManager

import keras

from keras_norm.export.compare.samples import Samples
from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.saved_model.write_saved_model import write_saved_model
from keras_norm.export.formats.tflite.calibration import INTEGERS, calibration_data
from keras_norm.export.formats.tflite.converter_errors import explain_error, refuse_loops
from keras_norm.export.formats.tflite.integer_ops import rewrite_for_integers
from keras_norm.export.formats.tflite.tflite_loop import INTEGER_FUNCTIONS, TFLITE_FUNCTIONS
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.export.model.single_step import Step
from keras_norm.export.runtimes import channel
from keras_norm.export.runtimes.worker_process import CONVERSION_SECONDS, WorkerProcess
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm.typing import Json


def start_converter() -> WorkerProcess:
    """Start the process that `convert_model` needs, because its imports take seconds."""
    return WorkerProcess(
        "tflite/convert_tflite.py", subject="conversion to TFLite", timeout=CONVERSION_SECONDS
    )


def tflite_layers(
    model: keras.Model, quantize: str | None, step_only: bool
) -> AbstractContextManager[None]:
    """Replace methods of a model's layers in a `with` block, as `convert_model` traces them."""
    functions = INTEGER_FUNCTIONS if quantize in INTEGERS else TFLITE_FUNCTIONS
    return portable_layers(model, functions, one_lookup=step_only)


def convert_model(
    model: keras.Model,
    file: pathlib.Path,
    converter: WorkerProcess,
    *,
    quantize: str | None,
    step: Step | None = None,
    step_only: bool = False,
    samples: Samples | None = None,
    products: pathlib.Path | None = None,
) -> list[tuple[str, str]]:
    """Convert a model to a TFLite file, without a check of the file's outputs.

    Args:
        model: a functional or a built sequential model.
        file: the file to write.
        converter: the process from `start_converter`.
        quantize: as for `export_tflite`.
        step: the single-step model; None for a file without a step signature.
        step_only: whether to write the step signature without `serving_default`.
        samples: samples for the scales of the activations; None if the file computes in floats.
        products: a second file to write, in which only matrix products compute in integers; or
            None.

    Returns:
        (kind, name of its output tensor) of each operation that computes in float32 in a file that
        otherwise computes in integers.

    Raises:
        UnsupportedOpError: TFLite lacks an operation. The message names its layers.
        ConversionError: the converter failed or died.
        ValueError: the file computes in integers, and the model has a loop.
    """
    # TensorFlow reads some characters of a path, such as "*", as a pattern. So the SavedModel is
    # written to a temporary path, which has no such characters.
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        saved_model = folder / "saved_model"
        with tflite_layers(model, quantize, step_only):
            write_saved_model(model, saved_model, step, step_only=step_only)
        options: dict[str, Json] = {
            "saved_model": str(saved_model),
            "path": str(file),
            "quantize": quantize,
            "signatures": [SERVING_DEFAULT] * (not step_only) + [STEP] * (step is not None),
            "products": None if products is None else str(products),
        }
        if quantize in INTEGERS and samples is not None:
            refuse_loops(model, saved_model, quantize)
            rewrite_for_integers(saved_model, INTEGERS[quantize])
            arrays, batch = calibration_data(samples, step if step_only else None, quantize)
            calibration = folder / "calibration"
            calibration.write_bytes(channel.pack(arrays))
            options["calibration"] = {"path": str(calibration), "batch": batch}
        try:
            in_float32: list[tuple[str, str]] = converter.load(options)["float32"]
        except RunnerError as error:
            raise explain_error(model, saved_model, error) from error
    return in_float32
