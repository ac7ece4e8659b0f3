"""Worker script: run an ONNX file in ONNX Runtime, which shares no code with TensorFlow."""

import pathlib

import onnx
import onnx_graph
import onnxruntime
import worker_protocol as protocol

# ONNX Runtime's name of a type -> NumPy's name, if the names differ.
DTYPES = {"float": "float32", "double": "float64"}

FATAL = 4


def load(options: protocol.Options) -> protocol.Loaded:
    """Load the ONNX file `options["path"]` into ONNX Runtime.

    The report to the runner lists the inputs and the operations of the file. With
    `options["every_tensor"]` the outputs are all tensors computed outside loops, by name.
    """
    settings = onnxruntime.SessionOptions()
    # Do not log errors: ONNX Runtime raises them as exceptions too.
    settings.log_severity_level = FATAL

    def opened(file: str | bytes) -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])

    session = opened(options["path"])
    outputs = [output.name for output in session.get_outputs()]
    model = onnx_graph.read(pathlib.Path(options["path"]))
    if options.get("every_tensor"):
        # Load weights that are stored in separate files into `model`. ONNX Runtime could not find
        # these files, because it gets `model` as bytes without a path.
        onnx.load_external_data_for_model(model, str(pathlib.Path(options["path"]).parent))
        computed = [name for node in model.graph.node for name in node.output if name]
        # Make every computed tensor an output of the graph. Only its name is given: ONNX Runtime
        # infers the dtype and the shape.
        new = (onnx.ValueInfoProto(name=name) for name in computed if name not in outputs)
        model.graph.output.extend(new)
        session, outputs = opened(model.SerializeToString()), computed
    inputs = {
        entry.name: (
            [size if isinstance(size, int) else None for size in entry.shape],
            dtype(entry.type),
        )
        for entry in session.get_inputs()
    }

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        values = zip(outputs, session.run(outputs, arrays), strict=True)
        return {n: v for n, v in values if not options.get("every_tensor") or is_floating(v)}

    return protocol.Loaded({"inputs": inputs, "ops": onnx_graph.operations(model)}, run)


def is_floating(value: protocol.Json) -> bool:
    """Return whether an output of ONNX Runtime is an array of floats, not a list or a dict."""
    return getattr(value, "dtype", None) is not None and value.dtype.kind == "f"


def dtype(kind: str) -> str:
    """Return NumPy's name of an ONNX Runtime type such as "tensor(float)"."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return DTYPES.get(name, name)


if __name__ == "__main__":
    protocol.serve(load)
