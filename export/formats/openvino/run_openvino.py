"""Worker script: run a SavedModel or TFLite file in OpenVINO, independent of TensorFlow."""

from collections.abc import Sequence

import numpy as np
import openvino
import worker_protocol as protocol

# OpenVINO's name of a type -> NumPy's name.
DTYPES = {"boolean": "bool", "f16": "float16", "f32": "float32", "f64": "float64"}
DTYPES |= {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "string": "string"}
DTYPES |= {"u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}

INT32 = np.iinfo(np.int32)


def load(options: protocol.Options) -> protocol.Loaded:
    """Read the file `options["path"]`, and compile its model with OpenVINO.

    The options `inputs` and `outputs` are dicts: name -> name of its tensor in the file.
    """
    core = openvino.Core()
    try:
        model = core.read_model(options["path"])
        input_indices = port_indices(model.inputs, options["inputs"])
        output_indices = port_indices(model.outputs, options["outputs"])
        keep_reductions_apart(model)
        model = with_float32_interface(model)
        # Compute in float32. By default OpenVINO uses bfloat16 or float16 on many processors.
        compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    except RuntimeError as error:
        raise RuntimeError(f"OpenVINO cannot read the file: {reason(str(error))}") from error
    inputs = {name: compiled.inputs[i] for name, i in input_indices.items()}
    outputs = {name: compiled.outputs[i] for name, i in output_indices.items()}
    specs = {
        name: (
            [None if size.is_dynamic else size.get_length() for size in port.partial_shape],
            DTYPES[port.element_type.get_type_name()],
        )
        for name, port in inputs.items()
    }

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        for name, array in arrays.items():
            if array.dtype == np.int64 and ((array < INT32.min) | (array > INT32.max)).any():
                raise OverflowError(
                    f'OpenVINO computes int64 in 32 bits, and the values of input "{name}" do not '
                    "fit. Give smaller values"
                )
        try:
            results = compiled({inputs[name]: array for name, array in arrays.items()})
        except RuntimeError as error:
            raise RuntimeError(f"OpenVINO cannot run the file: {reason(str(error))}") from error
        return {name: np.array(results[port]) for name, port in outputs.items()}

    return protocol.Loaded({"inputs": specs}, run)


def port_indices(ports: Sequence[openvino.ConstOutput], tensors: dict[str, str]) -> dict[str, int]:
    """Return a dict: name of an input or output -> index of its port in OpenVINO's model.

    `ports` are all inputs, or all outputs, of OpenVINO's model. `tensors` is a dict: name of an
    input or output -> name of its tensor in the file.
    """
    return {
        name: next(i for i, port in enumerate(ports) if tensor in port.names)
        for name, tensor in tensors.items()
    }


def keep_reductions_apart(model: openvino.Model) -> None:
    """Prevent OpenVINO from fusing a reduction (e.g. a mean) of a 3D tensor with later operations.

    The fused operation would return wrong outputs. OpenVINO (2026.4.1) fuses later operations, such
    as a product with a constant, into a reduction. In a tensor of three dimensions the fusion
    treats the first dimension as channels. Row k of the batch then gets element k of the constant,
    or memory behind the constant's end. OpenVINO fuses nothing into a tensor that is read twice.
    This function therefore adds each such reduction as an output, after the existing outputs.
    """
    for op in model.get_ops():
        for body in subgraphs(op):
            keep_reductions_apart(body)
        if op.get_type_name().startswith("Reduce") and op.get_input_partial_shape(0).rank == 3:
            model.add_outputs(op.output(0))


def subgraphs(op: openvino.Node) -> list[openvino.Model]:
    """Return the graphs that a loop or an `If` operation runs; [] for any other operation."""
    if op.get_type_name() == "If":
        return [op.get_then_body(), op.get_else_body()]
    return [op.get_function()] if op.get_type_name() in ("Loop", "TensorIterator") else []


def with_float32_interface(model: openvino.Model) -> openvino.Model:
    """Change bfloat16 inputs and outputs to float32, because NumPy lacks bfloat16."""
    processor = openvino.preprocess.PrePostProcessor(model)
    for side, ports in ((processor.input, model.inputs), (processor.output, model.outputs)):
        for i, port in enumerate(ports):
            if port.element_type == openvino.Type.bf16:
                side(i).tensor().set_element_type(openvino.Type.f32)
    return processor.build()


def reason(text: str) -> str:
    """Extract the cause from OpenVINO's error text, in one line."""
    if "Incorrect subgraph idx" in text:
        return "it has a loop inside a loop"  # OpenVINO cannot read nested loops of TFLite files
    lines = [line.strip(" -") for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "No conversion rule" in line), lines[-1])


if __name__ == "__main__":
    protocol.serve(load)
