"""Convert a SavedModel to a TFLite file in a worker process, and explain the converter's errors."""

import pathlib
import re
from collections.abc import Mapping

import keras

from keras_norm.export.errors import ConversionError, RunnerError, UnsupportedOpError
from keras_norm.export.formats.refusals import name_layers
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.tflite.quantization import log_float32
from keras_norm.export.formats.tflite.tflite_loop import LONGEST_UNROLLED
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.named_layers import named_layers
from keras_norm.typing import Json

# Prefix of TensorFlow's list operations, in which a loop collects its outputs.
LOOP_OPS = "TensorList"


def refuse_loops(model: keras.Model, saved_model: pathlib.Path, quantize: str | None) -> None:
    """Raise ValueError if a model to quantize has a loop: TensorFlow's quantizer would crash.

    Args:
        model: the Keras model.
        saved_model: the model's SavedModel.
        quantize: as for `export_tflite`, for the message.
    """
    ops = SavedModelFile(saved_model).ops
    loops = [node for op in ("While", "StatelessWhile") for node in ops.get(op, [])]
    if loops:
        raise ValueError(
            f'quantize="{quantize}" cannot convert the loop of {name_layers(model, loops)}. Export '
            'the step signature only, signature="step"; or choose quantize="dynamic"; or build the '
            f"model with a static number of timesteps of at most {LONGEST_UNROLLED}, "
            "keras.Input((timesteps, ...)), and copy the weights (set_weights)"
        )


def convert(model: keras.Model, converter: WorkerProcess, options: Mapping[str, Json]) -> None:
    """Convert a SavedModel in a worker process, and log the layers that compute in float32.

    Args:
        model: the Keras model.
        converter: the worker process of convert_tflite.py.
        options: options of convert_tflite.py.

    Raises:
        UnsupportedOpError: TFLite lacks an operation. The message names its layers.
        ConversionError: the converter failed or died.
    """
    try:
        log_float32(model, converter.load(options)["float32"])
    except RunnerError as error:
        saved_model = SavedModelFile(pathlib.Path(options["saved_model"]))
        unsupported = _unsupported_ops(error.detail, saved_model.ops)
        if unmeasured := re.findall(r"calibration: Failed for tensor (\S+)", error.detail):
            raise ConversionError(
                "TensorFlow's quantizer treats integers as real numbers in "
                f"{name_layers(model, unmeasured)}, and has no scale for the tensor "
                f"{unmeasured[0]}. The cause is an argmax or a comparison of booleans. Choose "
                'quantize="int8", or replace the argmax or the comparison'
            ) from error
        if not unsupported:
            _refuse_quantized(model)
            raise ConversionError(str(error)) from error
        listed = "; ".join(
            f"{_source_ops(op, nodes, saved_model.ops)} in {name_layers(model, nodes)}"
            for op, nodes in unsupported.items()
        )
        advice = (
            "Replace the layer or the function of keras.ops that needs the unsupported operation"
        )
        if any(layer.compute_dtype == "float64" for _, layer in named_layers(model)):
            advice = (
                "The model computes in float64: build it under the float32 policy and copy the "
                "weights (set_weights)"
            )
        if any(op.startswith(LOOP_OPS) for op in unsupported):
            advice = (
                "The layer runs its own loop, which converts with a static batch size only: "
                "keras.Input(batch_shape=(1, None, ...)). For dynamic sizes use a cell in "
                "keras.layers.RNN(cell), or a recurrent layer of Keras or keras_norm"
            )
        raise UnsupportedOpError(
            f"TFLite has no builtin operation for {listed}. {advice}", unsupported
        ) from error


def _refuse_quantized(model: keras.Model) -> None:
    """Raise ConversionError if Keras quantized a layer: TFLite lacks this layer's operations."""
    for path, layer in named_layers(model):
        if mode := getattr(layer, "quantization_mode", None):
            raise ConversionError(
                f'layer "{path}" computes in {mode} because of model.quantize, which the converter '
                "does not support. Export the model before model.quantize, with "
                'quantize="dynamic" or "int8"'
            )


def _source_ops(op: str, nodes: list[str], ops: dict[str, list[str]]) -> str:
    """Name an operation that TFLite lacks, and its origin in the model: "A (converted from B)"."""
    sources = [source for source, own in ops.items() if {*own} & {*nodes}]
    if op in ops or not sources:
        return op
    return f"{op} (converted from {' and '.join(sorted(sources))})"


def _unsupported_ops(text: str, ops: dict[str, list[str]]) -> dict[str, list[str]]:
    """Find the unsupported operations and their nodes in the converter's error text."""
    found: dict[str, list[str]] = {}
    for line, op in re.findall(r"(error: .*'|^\t)tf\.(\w+)", text, re.MULTILINE):
        # The converter replaces some operations of the model. Only the error text names the nodes
        # of the new operations.
        named = [*found.get(op, []), *re.findall(r'"([^"@]+)@__inference_named', line)]
        nodes = ops.get(op, named)
        # An operation may be supported in some nodes only. The error text names each unsupported
        # node as "name@function". But the converter stops its search at the first operation of a
        # loop, so all nodes of a loop operation count as unsupported.
        reported = [node for node in nodes if f'"{node}@' in text]
        found[op] = nodes if op.startswith(LOOP_OPS) else reported or nodes
    return found
