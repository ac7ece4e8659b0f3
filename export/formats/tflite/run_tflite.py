"""Worker script: run a TFLite file with LiteRT's interpreter."""

import pathlib

import numpy as np
import worker_protocol as protocol
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_schema import operation_names

EVERY_TENSOR = {
    "experimental_preserve_all_tensors": True,
    # Use no delegate, such as XNNPACK: a delegate fuses operations, and does not store the tensors
    # between the fused operations.
    "experimental_op_resolver_type": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
}


def load(options: protocol.Options) -> protocol.Loaded:
    """Load the TFLite file `options["path"]` into LiteRT's interpreter.

    The report to the runner lists the inputs, signatures and operations of the file. With
    `options["every_tensor"]` the outputs are all tensors computed outside loops, by name.
    """
    settings = EVERY_TENSOR if options.get("every_tensor") else {}
    interpreter = Interpreter(model_path=options["path"], **settings)
    signatures = sorted(interpreter.get_signature_list())
    if not signatures:
        raise ValueError(
            "the file has no signature, so its inputs have no names; export the model with a "
            "signature"
        )
    key = options["signature"]
    if key not in signatures:
        # Another exporter may give a signature any name. If the caller requests `serving_default`
        # and the file has only one signature, run this signature.
        if key != "serving_default" or len(signatures) > 1:
            raise ValueError(
                f"the file has no signature {key}; its signatures are: {', '.join(signatures)}"
            )
        (key,) = signatures
    signature = interpreter.get_signature_runner(key)
    inputs = {
        name: (
            [None if size < 0 else int(size) for size in detail["shape_signature"]],
            np.dtype(detail["dtype"]).name,
        )
        for name, detail in signature.get_input_details().items()
    }
    model = schema.ModelT.InitFromPackedBuf(pathlib.Path(options["path"]).read_bytes(), 0)
    graphs = {s.signatureKey.decode(): s.subgraphIndex for s in model.signatureDefs}

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        outputs: protocol.Arrays = signature(**arrays)
        return computed_tensors(interpreter, model, graphs[key]) if settings else outputs

    report = {"inputs": inputs, "signatures": signatures, "ops": operations(model)}
    return protocol.Loaded(report, run)


def computed_tensors(interpreter: Interpreter, model: schema.ModelT, graph: int) -> protocol.Arrays:
    """Return the float tensors that a graph has computed, such as {"7: dense/add": array}."""
    tensors = {}
    for index in [i for op in model.subgraphs[graph].operators for i in op.outputs]:
        try:
            tensor = interpreter.get_tensor(index, subgraph_index=graph)
        except ValueError:
            continue  # skip a tensor without data, such as a state inside an operation
        if tensor.dtype.kind == "f":
            name = (model.subgraphs[graph].tensors[index].name or b"").decode()
            tensors[f"{index}: {name}"] = np.array(tensor)
    return tensors


def operations(model: schema.ModelT) -> dict[str, list[str]]:
    """Return the output tensors of all subgraphs by operation, such as {"ADD": ["dense/add"]}."""
    kinds, found = operation_names(schema, model), dict[str, list[str]]()
    for subgraph in model.subgraphs:
        for operator in subgraph.operators or ():
            outputs = [(subgraph.tensors[i].name or b"").decode() for i in operator.outputs]
            found.setdefault(kinds[operator.opcodeIndex], []).extend(outputs)
    return found


if __name__ == "__main__":
    protocol.serve(load)
