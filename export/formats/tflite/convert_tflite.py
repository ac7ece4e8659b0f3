"""Worker script: convert a SavedModel to a TFLite file of builtin operations."""

import pathlib
from collections.abc import Iterator

import channel
import float_ops
import tensorflow as tf
import worker_protocol as protocol
from ai_edge_litert import schema_py_generated as schema
from tflite_schema import operation_names, pack

# Value of `quantize` -> sets of operations that the converter may use. TFLITE_BUILTINS computes in
# float32. "int16x8" needs this set for operations without a 16-bit kernel. With "int8" the
# converter uses float32 for operations without an 8-bit kernel, even without this set.
INTEGERS = {
    "int8": [tf.lite.OpsSet.TFLITE_BUILTINS_INT8],
    "int16x8": [
        tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
        tf.lite.OpsSet.TFLITE_BUILTINS,
    ],
}


def load(options: protocol.Options) -> protocol.Loaded:
    """Convert the SavedModel `options["saved_model"]` to the TFLite file `options["path"]`.

    If `options["products"]` names a second file, only matrix products compute in integers in the
    second file. If `options["quantize"]` computes in integers, the report to the exporter
    lists the operations that compute in float32.
    """
    converter = tf.lite.TFLiteConverter.from_saved_model(
        options["saved_model"], signature_keys=options["signatures"], tags={"serve"}
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if options["quantize"] is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if options["quantize"] == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if options["quantize"] in INTEGERS:
        converter.target_spec.supported_ops = INTEGERS[options["quantize"]]
        converter.representative_dataset = lambda: calibration(**options["calibration"])
    content = keep_dimensions(converter.convert())
    if options.get("products"):
        products = float_ops.compute_in_float32(content, all_but_products=True)
        pathlib.Path(options["products"]).write_bytes(products)
    if options["quantize"] == "int16x8":
        content = float_ops.compute_in_float32(content, all_but_products=False)
    pathlib.Path(options["path"]).write_bytes(content)
    if options["quantize"] not in INTEGERS:
        return protocol.Loaded({"float32": []})
    return protocol.Loaded({"float32": float_ops.operations_in_float32(content)})


def keep_dimensions(content: bytes) -> bytes:
    """Set `keep_num_dims` of each matrix product (FULLY_CONNECTED), to avoid wrong outputs.

    TensorFlow's converter sets this option only for an input with more than two axes. This function
    also sets it for a matrix, where it does not change the product. Without the option LiteRT's
    XNNPACK copies the matrix first. LiteRT 2.3 can omit this copy by mistake, and computes with old
    numbers then. The cause: after the first batch of another shape, XNNPACK compares the new
    address of the copy with the old address of the matrix. If both are equal, it makes no copy.
    """
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    kinds = operation_names(schema, model)
    for graph in model.subgraphs:
        for op in graph.operators or []:
            if kinds[op.opcodeIndex] == "FULLY_CONNECTED":
                shapes = [graph.tensors[i].shape for i in (op.inputs[0], op.outputs[0])]
                op.builtinOptions.keepNumDims |= all(len(shape) == 2 for shape in shapes)
    packed: bytes = pack(model)
    return packed


def calibration(path: str, batch: int) -> Iterator[protocol.Arrays]:
    """Yield batches of calibration samples from a file that `channel.pack` encoded."""
    arrays = channel.unpack(pathlib.Path(path).read_bytes())
    for start in range(0, len(next(iter(arrays.values()))), batch):
        yield {name: array[start : start + batch] for name, array in arrays.items()}


if __name__ == "__main__":
    protocol.serve(load)
