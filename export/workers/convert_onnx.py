"""Worker: convert a SavedModel to an ONNX file by tf2onnx, as Keras' own exporter does."""

from typing import Any

import onnx
import onnx_graph
import protocol
import tensorflow as tf
import tf2onnx
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2


def load(request: dict[str, Any]) -> tuple[dict[str, Any], None]:
    """Convert `request["saved_model"]` to `request["path"]`; report what has no ONNX form."""
    model = tf.saved_model.load(request["saved_model"], tags=["serve"])
    function = model.signatures["serving_default"]
    specs = function.structured_input_signature[1]
    # tf2onnx takes every tensor that a function captures, such as a constant of a layer, for an
    # input. Frozen, the function captures none.
    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)

    def named(inputs: dict[str, Any]) -> dict[str, Any]:
        # tf2onnx takes the names of inputs and outputs from dicts.
        outputs = frozen(*(inputs[name] for name in sorted(specs)))
        return dict(zip(sorted(function.structured_outputs), outputs, strict=True))

    serve = tf.function(named, input_signature=[specs], autograph=False)
    converted, _ = tf2onnx.convert.from_function(
        serve, input_signature=[specs], output_path=request["path"]
    )
    # What it cannot convert it leaves as it was.
    ops = onnx_graph.operations(converted)
    return {"unknown": {op: nodes for op, nodes in ops.items() if not onnx.defs.has(op)}}, None


if __name__ == "__main__":
    protocol.serve(load)
