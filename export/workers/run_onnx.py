"""Worker: run an ONNX file in ONNX Runtime, which shares no code with TensorFlow."""

import pathlib
from typing import Any

import onnx_graph
import onnxruntime
import protocol

# NumPy's names of ONNX Runtime's types, where they are others.
DTYPES = {"float": "float32", "double": "float64"}

FATAL = 4


def load(request: dict[str, Any]) -> tuple[dict[str, Any], protocol.Run]:
    """Load `request["path"]`; report its inputs and operations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL  # errors are raised as well
    session = onnxruntime.InferenceSession(
        request["path"], options, providers=["CPUExecutionProvider"]
    )
    outputs = [output.name for output in session.get_outputs()]
    info = {
        "inputs": {
            entry.name: {
                "shape": [size if isinstance(size, int) else None for size in entry.shape],
                "dtype": dtype(entry.type),
            }
            for entry in session.get_inputs()
        },
        "ops": onnx_graph.operations(onnx_graph.read(pathlib.Path(request["path"]))),
    }

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        return dict(zip(outputs, session.run(outputs, arrays), strict=True))

    return info, run


def dtype(kind: str) -> str:
    """NumPy's name of a type such as "tensor(float)"."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return DTYPES.get(name, name)


if __name__ == "__main__":
    protocol.serve(load)
