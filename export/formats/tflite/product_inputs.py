"""Let the matrix products of a TFLite file read their inputs without a copy.

TensorFlow's converter sets `keep_num_dims` of a FULLY_CONNECTED only for an input with more than
two axes. For a matrix the option has no effect on the result. But without it LiteRT's XNNPACK
copies the matrix first. LiteRT 2.3 can omit this copy by mistake and then uses old numbers: after
the first batch of another shape, XNNPACK compares the new address of the copy with the old address
of the matrix. If they happen to be equal, it takes the copy for done.
"""

from ai_edge_litert import schema_py_generated as schema
from tflite_schema import operation_names, pack


def keep_dimensions(content: bytes) -> bytes:
    """Set `keep_num_dims` of each FULLY_CONNECTED whose input and output are matrices."""
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    kinds = operation_names(schema, model)
    for graph in model.subgraphs:
        for op in graph.operators or []:
            if kinds[op.opcodeIndex] == "FULLY_CONNECTED":
                shapes = [graph.tensors[i].shape for i in (op.inputs[0], op.outputs[0])]
                op.builtinOptions.keepNumDims |= all(len(shape) == 2 for shape in shapes)
    packed: bytes = pack(model)
    return packed
