"""Name the layers that TensorFlow's converter to TFLite does not support."""

import pathlib
import re

import keras

from keras_norm.export.errors import ConversionError, RunnerError, UnsupportedOpError
from keras_norm.export.formats.refusals import name_layers
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.tflite.tflite_loop import LONGEST_UNROLLED
from keras_norm.named_layers import named_layers

# Prefix of TensorFlow's list operations, in which a loop collects its outputs.
LOOP_OPS = "TensorList"


def refuse_loops(model: keras.Model, saved_model: pathlib.Path, quantize: str) -> None:
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


def explain_error(
    model: keras.Model, saved_model: pathlib.Path, error: RunnerError
) -> ConversionError | UnsupportedOpError:
    """Return the exception for an error of the worker process, with the layers that cause it."""
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
                    f'layer "{path}" computes in {mode} because of model.quantize, which the '
                    "converter does not support. Export the model before model.quantize, with "
                    'quantize="dynamic" or "int8"'
                )
        return ConversionError(str(error))
    advice = "Replace the layer or the function of keras.ops that needs the unsupported operation"
    if any(op.startswith(LOOP_OPS) for op in unsupported):
        advice = (
            "The layer runs its own loop, which converts with a static batch size only: "
            "keras.Input(batch_shape=(1, None, ...)). For dynamic sizes use a cell in "
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
