"""Read the operations, the constants and the ranges of inputs of a TFLite file."""

import dataclasses
import pathlib
import re
from collections.abc import Iterator

import numpy as np

from keras_norm.export.formats.tflite.tflite_file import parse_tflite
from keras_norm.export.formats.tflite.tflite_schema import (
    has_scale,
    operation_names,
    scale_and_zero,
)
from keras_norm.typing import Array, Json

# NumPy's names of the types that store numbers in a TFLite file.
DTYPES = ("float16", "float32", "int8", "int16", "int32", "int64")
# Rounding error of a float32 constant, relative to the constant's largest value. The exporter
# computes constants from weights, and two processors may round the same computation differently.
COMPUTED = 2.0**-20
# Rounding error of a float32 constant in a file that computes in integers, relative to the
# constant's largest value. Such a constant may have been rounded to 8 bits before.
EIGHT_BIT_ROUNDING = 1 / 254


@dataclasses.dataclass(frozen=True, eq=False)
class Constant:
    """A constant of a TFLite file, such as a kernel: its values and their rounding errors.

    Attributes:
        name: name of the tensor.
        dtype: dtype in which the file stores the constant.
        values: the real numbers that the constant represents.
        rounding: the largest rounding error of each value; its shape broadcasts to `values`.
    """

    name: str
    dtype: str
    values: Array
    rounding: Array


@dataclasses.dataclass(frozen=True, eq=False)
class TFLiteGraph:
    """The operations and the constants of all subgraphs of a TFLite file.

    Attributes:
        operations: (kind, tensors that it reads, tensors that it writes, options) of each
            operation.
        constants: the constants that an operation reads, in the order of the file. The float32 copy
            of a constant has the place of the constant.
        in_integers: whether the file rounds activations to integers.
    """

    operations: list[tuple[Json, ...]]
    constants: list[Constant]
    in_integers: bool

    def is_comparable(self, other: "TFLiteGraph") -> bool:
        """Return whether the constants of two files can be compared.

        The names and shapes of the constants must be equal. The operations must be equal too,
        unless both files compute in integers. The exporter chooses how many operations of a file in
        integers compute in float32.
        """
        # Ignore numbers in names, such as "_1": TensorFlow adds a number to a name that an earlier
        # model has used.
        constants, others = (
            [(re.sub(r"_\d+", "", each.name), each.values.shape) for each in g.constants]
            for g in (self, other)
        )
        same_choice = self.operations == other.operations
        return constants == others and (same_choice or (self.in_integers and other.in_integers))


def read_graph(path: pathlib.Path) -> TFLiteGraph:
    """Read the operations and the constants of a TFLite file; raise ValueError if it is damaged."""
    with parse_tflite(path) as (schema, model):
        dtypes = {getattr(schema.TensorType, name.upper()): name for name in DTYPES}
        kinds = operation_names(schema, model)
        in_integers = "QUANTIZE" in kinds
        operations, constants = [], []
        for graph in model.subgraphs:
            names = [tensor.name.decode() for tensor in graph.tensors]
            read = {index for op in graph.operators or () for index in op.inputs}
            found = [
                _read_constant(tensor, dtypes[tensor.type], bytes(data), in_integers)
                for index, tensor in enumerate(graph.tensors)
                if index in read
                and tensor.type in dtypes
                and (data := model.buffers[tensor.buffer].data) is not None
                and len(data)
            ]
            constants += sorted(found, key=lambda constant: names.index(constant.name))
            operations += [
                (
                    kinds[op.opcodeIndex],
                    *map(_to_tuples, (op.inputs, op.outputs, op.builtinOptions)),
                )
                for op in graph.operators or ()
            ]
        return TFLiteGraph(operations, constants, in_integers)


def input_ranges(path: pathlib.Path) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest value of each input that a file quantizes, by input name.

    Values outside the range are clipped. A file that computes in floats has no ranges. A damaged
    file raises ValueError.
    """
    with parse_tflite(path) as (schema, model):
        # Type of integers -> the smallest and the largest number.
        limits = {
            schema.TensorType.INT8: (-128, 127),
            schema.TensorType.INT16: (-(2**15), 2**15 - 1),
        }
        kinds = operation_names(schema, model)

        def ranges() -> Iterator[tuple[str, tuple[float, float]]]:
            for signature in model.signatureDefs or ():
                graph = model.subgraphs[signature.subgraphIndex]
                rounded = {
                    op.inputs[0]: graph.tensors[op.outputs[0]]
                    for op in graph.operators or ()
                    if kinds[op.opcodeIndex] == "QUANTIZE"
                }
                for entry in signature.inputs or ():
                    tensor = rounded.get(entry.tensorIndex)
                    if tensor is not None and tensor.type in limits:
                        scale, zero = map(float, scale_and_zero(tensor, 0))
                        # An input value is rounded to the nearest integer. So the range begins 0.5
                        # before the smallest integer, and ends 0.5 after the largest integer.
                        first, last = limits[tensor.type]
                        low, high = ((n - zero) * scale for n in (first - 0.5, last + 0.5))
                        yield entry.name.decode(), (low, high)

        return dict(ranges())


def _read_constant(tensor: Json, dtype: str, data: bytes, in_integers: bool) -> Constant:
    shape = [] if tensor.shape is None else tensor.shape
    values = np.frombuffer(data, dtype).reshape(shape).astype("float64")
    rounding = np.asarray(0.0)
    if has_scale(tensor):
        scale, zero = scale_and_zero(tensor, values.ndim)
        values, rounding = (values - zero) * scale, scale / 2
    elif dtype == "float16":
        rounding = np.maximum(np.abs(values) * 2.0**-11, 2.0**-25)
    elif dtype == "float32":
        largest = np.abs(values).max(initial=0.0)
        rounding = np.asarray(largest * (EIGHT_BIT_ROUNDING if in_integers else COMPUTED))
    return Constant(tensor.name.decode(), dtype, values, rounding)


def _to_tuples(value: Json) -> Json:
    """Convert an array, list or object of a parsed file to nested tuples, which == can compare."""
    if isinstance(value, np.ndarray | list):
        return tuple(map(_to_tuples, value))
    if hasattr(value, "__dict__"):
        return (type(value).__name__, *((k, _to_tuples(v)) for k, v in sorted(vars(value).items())))
    return value
