"""Worker script: convert a SavedModel to an ONNX file with tf2onnx, as Keras' exporter does."""

import onnx
import onnx_graph
import tensorflow as tf
import tf2onnx
import worker_protocol as protocol
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

MEANS = ("GlobalAveragePool", "ReduceMean")


def load(options: protocol.Options) -> protocol.Loaded:
    """Convert the SavedModel `options["saved_model"]` to the ONNX file `options["path"]`.

    The report to the exporter lists the operations that tf2onnx cannot convert.
    """
    model = tf.saved_model.load(options["saved_model"], tags=["serve"])
    function = model.signatures["serving_default"]
    # TensorFlow has changed the inputs' names to lower case in the TensorSpecs of `function`. Make
    # TensorSpecs with the original names: tf2onnx gives these names to the inputs of the ONNX file.
    specs = {
        name: tf.TensorSpec(spec.shape, spec.dtype, name)
        for name, spec in function.structured_input_signature[1].items()
    }
    # Freeze the function: its captured tensors, such as the weights, become constants of the graph.
    # Otherwise tf2onnx would make each captured tensor an input of the ONNX file.
    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)

    def with_names(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        # tf2onnx names the outputs of the ONNX file after the keys of the returned dict.
        outputs = frozen(*(inputs[name] for name in sorted(specs)))
        return dict(zip(sorted(function.structured_outputs), outputs, strict=True))

    serve = tf.function(with_names, input_signature=[specs], autograph=False)
    converted, _ = tf2onnx.convert.from_function(serve, input_signature=[specs])
    for graph in onnx_graph.graphs(converted.graph):
        repair_means(graph)
    onnx.save(converted, options["path"])
    # Report each operation that ONNX does not define: tf2onnx cannot convert this operation, and
    # has copied TensorFlow's operation to the ONNX file.
    ops = onnx_graph.operations(converted)
    unsupported = {op: nodes for op, nodes in ops.items() if not onnx.defs.has(op)}
    return protocol.Loaded({"unsupported": unsupported})


def repair_means(graph: onnx.GraphProto) -> None:
    """Reduce the rounding error of mean(x) where a graph computes x - mean(x), as in LayerNorm.

    ONNX Runtime's mean of 257 equal values has an error of several units in the last place. A norm
    divides this error by sqrt(epsilon): its output for digital silence is noise instead of 0.

    ::

        shift = mean(x)        mean = shift + mean(x - shift)
    """
    centered = {frozenset(node.input) for node in graph.node if node.op_type == "Sub"}
    nodes = []
    for node in graph.node:
        nodes.append(node)
        if node.op_type not in MEANS or frozenset((node.input[0], node.output[0])) not in centered:
            continue
        mean, shift, shifted, left = (
            node.output[0] + suffix for suffix in ("", "/shift", "/shifted", "/left")
        )
        again = onnx.NodeProto()
        again.CopyFrom(node)
        node.output[0], again.input[0], again.output[0] = shift, shifted, left
        again.name = f"{node.name}/left"
        nodes += [
            onnx.helper.make_node("Sub", [node.input[0], shift], [shifted], f"{node.name}/shifted"),
            again,
            onnx.helper.make_node("Add", [shift, left], [mean], f"{node.name}/mean"),
        ]
    del graph.node[:]
    graph.node.extend(nodes)


if __name__ == "__main__":
    protocol.serve(load)
