"""Worker: run a TFLite file and give every tensor of its graph that is computed outside loops."""

import pathlib
from typing import Any

import numpy as np
import protocol
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType


def load(request: dict[str, Any]) -> tuple[dict[str, Any], protocol.Run]:
    """Load `request["path"]`, and return a function that gives all tensors by name."""
    path = pathlib.Path(request["path"])
    interpreter = Interpreter(
        model_path=str(path),
        experimental_preserve_all_tensors=True,
        # A delegate computes several operations in one, and keeps nothing in between.
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    subgraphs = {s.signatureKey.decode(): s.subgraphIndex for s in model.signatureDefs}
    key = request["signature"]
    if key not in subgraphs:
        (key,) = subgraphs
    subgraph = subgraphs[key]
    signature = interpreter.get_signature_runner(key)
    computed = {
        index: f"{index}: {model.subgraphs[subgraph].tensors[index].name.decode()}"
        for operator in model.subgraphs[subgraph].operators
        for index in operator.outputs
    }

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        signature(**arrays)
        tensors = {}
        for index, name in computed.items():
            try:
                tensor = interpreter.get_tensor(index, subgraph_index=subgraph)
            except ValueError:  # it has no data: a state inside an operation
                continue
            if tensor.dtype.kind == "f":
                tensors[name] = np.array(tensor)
        return tensors

    return {}, run


if __name__ == "__main__":
    protocol.serve(load)
