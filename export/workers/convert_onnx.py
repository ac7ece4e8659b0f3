"""Worker: convert a SavedModel to an ONNX file by tf2onnx, as Keras' own exporter does."""

from typing import Any

import onnx
import onnx_graph
import protocol
import tensorflow as tf
import tf2onnx


def load(request: dict[str, Any]) -> tuple[dict[str, Any], None]:
    """Convert `request["saved_model"]` to `request["path"]`; report what has no ONNX form."""
    model = tf.saved_model.load(request["saved_model"], tags=["serve"])
    function = model.signatures["serving_default"]
    specs = function.structured_input_signature[1]
    # tf2onnx takes the names of inputs and outputs from dicts.
    serve = tf.function(lambda inputs: function(**inputs), input_signature=[specs])
    converted, _ = tf2onnx.convert.from_function(
        serve, input_signature=[specs], output_path=request["path"]
    )
    # What it cannot convert it leaves as it was.
    ops = onnx_graph.operations(converted)
    return {"unknown": {op: nodes for op, nodes in ops.items() if not onnx.defs.has(op)}}, None


if __name__ == "__main__":
    protocol.serve(load)
