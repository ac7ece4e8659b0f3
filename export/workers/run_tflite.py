"""Worker: run a TFLite file with LiteRT's interpreter."""

import pathlib
from typing import Any

import numpy as np
import protocol
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter


def load(request: dict[str, Any]) -> tuple[dict[str, Any], protocol.Run]:
    """Load `request["path"]`; report its inputs, outputs and operations."""
    interpreter = Interpreter(model_path=request["path"])
    signatures = sorted(interpreter.get_signature_list())
    if not signatures:
        raise ValueError("the file has no signature, so its inputs have no names")
    key = request["signature"]
    if key not in signatures:
        # A file that others wrote may call its one signature anything.
        if key != "serving_default" or len(signatures) > 1:
            raise ValueError(f"the file has no signature {key}; it has: {', '.join(signatures)}")
        (key,) = signatures
    signature = interpreter.get_signature_runner(key)
    inputs = {
        name: {
            "shape": [None if size < 0 else int(size) for size in detail["shape_signature"]],
            "dtype": np.dtype(detail["dtype"]).name,
        }
        for name, detail in signature.get_input_details().items()
    }

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        return signature(**arrays)

    info = {
        "inputs": inputs,
        "signatures": signatures,
        "outputs": sorted(signature.get_output_details()),
        "ops": operations(pathlib.Path(request["path"])),
    }
    return info, run


def operations(path: pathlib.Path) -> dict[str, list[str]]:
    """Operation -> names of the tensors it writes, in every subgraph (loop bodies too)."""
    names = {v: k for k, v in vars(schema.BuiltinOperator).items() if not k.startswith("_")}
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    found: dict[str, list[str]] = {}
    for subgraph in model.subgraphs:
        for operator in subgraph.operators or ():
            code = model.operatorCodes[operator.opcodeIndex]
            # Old files keep the code in a byte, new ones in an int: the larger one counts.
            op = names[max(code.builtinCode, code.deprecatedBuiltinCode)]
            if op == "CUSTOM":
                op = code.customCode.decode()
            outputs = [subgraph.tensors[i].name.decode() for i in operator.outputs]
            found.setdefault(op, []).extend(outputs)
    return found


if __name__ == "__main__":
    protocol.serve(load)
