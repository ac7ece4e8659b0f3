"""Worker: run an ONNX file and give every tensor of its graph that is computed outside loops."""

import pathlib
from typing import Any

import onnx
import onnx_graph
import onnxruntime
import protocol


def load(request: dict[str, Any]) -> tuple[dict[str, Any], protocol.Run]:
    """Load `request["path"]`, and return a function that gives all tensors by name."""
    model = onnx_graph.read(pathlib.Path(request["path"]))
    known = {output.name for output in model.graph.output}
    computed = [name for node in model.graph.node for name in node.output if name]
    # ONNX Runtime finds their types and shapes by itself.
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in computed if n not in known)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        values = zip(computed, session.run(computed, arrays), strict=True)
        return {name: value for name, value in values if is_floating(value)}

    return {}, run


def is_floating(value: Any) -> bool:
    """Whether a value, which need not be a tensor, is one of floats."""
    return getattr(value, "dtype", None) is not None and value.dtype.kind == "f"


if __name__ == "__main__":
    protocol.serve(load)
