"""Convert a Keras model to a TFLite file; name the layers that the converter does not support."""

import pathlib
import re
import shutil
import tempfile
from contextlib import AbstractContextManager

import keras

from keras_norm.export.compare.samples import Samples
from keras_norm.export.errors import ConversionError, RunnerError, UnsupportedOpError
from keras_norm.export.formats.refusals import name_layers
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.saved_model.write_saved_model import write_saved_model
from keras_norm.export.formats.tflite.calibration import INTEGERS, calibration_data
from keras_norm.export.formats.tflite.integer_ops import rewrite_for_integers
from keras_norm.export.formats.tflite.tflite_loop import (
    INTEGER_FUNCTIONS,
    LONGEST_UNROLLED,
    TFLITE_FUNCTIONS,
)
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.export.model.single_step import Step
from keras_norm.export.runtimes import channel
from keras_norm.export.runtimes.worker_process import CONVERSION_SECONDS, WorkerProcess
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm.named_layers import named_layers
from keras_norm.typing import Json

# The names of TensorFlow's list operations begin with this prefix, such as "TensorListSetItem". A
# loop collects its outputs with these operations.
LOOP_OPS = "TensorList"


def start_converter() -> WorkerProcess:
    """Start the process in which `convert_model` converts a model to TFLite.

    The imports of the process take seconds. The caller can do other work in this time.
    """
    return WorkerProcess(
        "tflite/convert_tflite.py", subject="conversion to TFLite", timeout=CONVERSION_SECONDS
    )


def tflite_layers(
    model: keras.Model, quantize: str | None, step_only: bool
) -> AbstractContextManager[None]:
    """Replace layer methods that TFLite cannot convert, for the time of a `with` block."""
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
        saved_model, converted = folder / "saved_model", folder / "model.tflite"
        with tflite_layers(model, quantize, step_only):
            write_saved_model(model, saved_model, step, step_only=step_only)
        options: dict[str, Json] = {
            "saved_model": str(saved_model),
            "path": str(converted),
            "quantize": quantize,
            "signatures": [SERVING_DEFAULT] * (not step_only) + [STEP] * (step is not None),
            "products": None if products is None else str(products),
        }
        if quantize in INTEGERS and samples is not None:
            _refuse_loops(model, saved_model, quantize)
            rewrite_for_integers(saved_model, INTEGERS[quantize])
            arrays, batch = calibration_data(samples, step if step_only else None, quantize)
            calibration = folder / "calibration"
            calibration.write_bytes(channel.pack(arrays))
            options["calibration"] = {"path": str(calibration), "batch": batch}
        try:
            in_float32: list[tuple[str, str]] = converter.load(options)["float32"]
        except RunnerError as error:
            raise _explain_error(model, saved_model, error) from error
        # The exporter, not the converter process, writes `file`. So the user gets an OSError if the
        # disk is full.
        shutil.copyfile(converted, file)
    return in_float32


def _refuse_loops(model: keras.Model, saved_model: pathlib.Path, quantize: str) -> None:
    """Raise ValueError if a model to quantize has a loop: TensorFlow's quantizer would crash."""
    ops = SavedModelFile(saved_model).ops
    loops = [node for op in ("While", "StatelessWhile") for node in ops.get(op, [])]
    if loops:
        raise ValueError(
            f'quantize="{quantize}" cannot convert the loop of {name_layers(model, loops)}. Export '
            'the step signature only, signature="step"; or choose quantize="dynamic"; or build the '
            f"model with a static number of timesteps of at most {LONGEST_UNROLLED}, "
            "keras.Input((timesteps, ...)), and copy the weights (set_weights)"
        )


def _explain_error(
    model: keras.Model, saved_model: pathlib.Path, error: RunnerError
) -> ConversionError | UnsupportedOpError:
    """Return an exception that explains a converter's error, and names the layers that cause it."""
    if unmeasured := re.findall(r"calibration: Failed for tensor (\S+)", error.detail):
        return ConversionError(
            "TensorFlow's quantizer treats integers as real numbers in "
            f"{name_layers(model, unmeasured)}, and has no scale for the tensor {unmeasured[0]}. "
            "The cause is an argmax or a comparison of booleans. Choose "
            'quantize="int8", or replace the argmax or the comparison'
        )
    ops = SavedModelFile(saved_model).ops
    unsupported = _unsupported_ops(error.detail, ops)
    layers = list(named_layers(model))
    if not unsupported:
        for path, layer in layers:
            if mode := getattr(layer, "quantization_mode", None):
                return ConversionError(
                    f'layer "{path}" computes in {mode} because of model.quantize. The converter '
                    "does not support this layer. Export the model before model.quantize, with "
                    'quantize="dynamic" or "int8"'
                )
        return ConversionError(str(error))
    advice = "Replace the layer or the function of keras.ops that needs the unsupported operation"
    if any(op.startswith(LOOP_OPS) for op in unsupported):
        advice = (
            "The layer runs its own loop, and TFLite supports this loop with a static batch size "
            "only: keras.Input(batch_shape=(1, None, ...)). For a dynamic batch size use a cell in "
            "keras.layers.RNN(cell), or a recurrent layer of Keras or keras_norm"
        )
    elif any(layer.compute_dtype == "float64" for _, layer in layers):
        advice = (
            "The model computes in float64: build it under the float32 policy and copy the "
            "weights (set_weights)"
        )
    listed = "; ".join(
        f"{_source_ops(op, nodes, ops)} in {name_layers(model, nodes)}"
        for op, nodes in unsupported.items()
    )
    return UnsupportedOpError(
        f"TFLite has no builtin operation for {listed}. {advice}", unsupported
    )


def _source_ops(op: str, nodes: list[str], ops: dict[str, list[str]]) -> str:
    """Name an unsupported operation and its original in the model: "A (converted from B)"."""
    sources = [source for source, own in ops.items() if {*own} & {*nodes}]
    if op in ops or not sources:
        return op
    return f"{op} (converted from {' and '.join(sorted(sources))})"


def _unsupported_ops(text: str, ops: dict[str, list[str]]) -> dict[str, list[str]]:
    """Find the unsupported operations and their nodes in the converter's error text."""
    found: dict[str, list[str]] = {}
    for line, op in re.findall(r"(error: .*'|^\t)tf\.(\w+)", text, re.MULTILINE):
        # The converter may have replaced an operation A of the model by an unsupported operation B.
        # `ops` has only the model's operations, so not B. Read the names of the nodes that
        # became B from the error text.
        named = [*found.get(op, []), *re.findall(r'"([^"@]+)@__inference_named', line)]
        nodes = ops.get(op, named)
        # The error text names each unsupported node as "name@function". The other nodes of the
        # operation are supported. A list operation (`LOOP_OPS`) is an exception: the error text
        # names only its first unsupported node. So all its nodes count as unsupported.
        reported = [node for node in nodes if f'"{node}@' in text]
        found[op] = nodes if op.startswith(LOOP_OPS) else reported or nodes
    return found
