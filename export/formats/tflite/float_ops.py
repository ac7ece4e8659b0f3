"""Rewrite operations of a quantized TFLite file to compute in float32.

The file dequantizes integers before such an operation. It quantizes the operation's outputs for
operations that read integers. Two kinds of operations need float32:

- Operations without a 16-bit kernel, in a file of 16 bits. TensorFlow's quantizer leaves these in
  float32, but does not convert an input that another operation reads as integers. (Measured: -x
  beside 2 x had an error of 1e4; ELU does not run.)
- Operations that lose precision in integers. In 8 bits small values are lost beside large values. A
  sigmoid has 256 possible values, so a forget gate is at most 255/256. A variance below 1/256 of
  the largest variance is 0. In 16 bits LOG and RSQRT use a table of 512 numbers.
"""

import copy
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema
from tflite_schema import has_scale, operation_names, pack, scale_and_zero

# Operations that are never rewritten to float32. Matrix products, convolutions and lookups read
# weights, and weights in float32 would make the file large. "IF" and "WHILE" only run other graphs.
IN_INTEGERS = (
    "BATCH_MATMUL",
    "CONV_2D",
    "CONV_3D",
    "DEPTHWISE_CONV_2D",
    "EMBEDDING_LOOKUP",
    "FULLY_CONNECTED",
    "GATHER",
    "GATHER_ND",
    "IF",
    "LSTM",
    "SVDF",
    "TRANSPOSE_CONV",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "WHILE",
)
# Operations that are always rewritten to float32. SELECT copies integers of its inputs to its
# output. The output would be wrong, because TensorFlow's quantizer gives it another scale.
SELECTIONS = ("SELECT", "SELECT_V2")
INTEGERS = {schema.TensorType.INT8: "int8", schema.TensorType.INT16: "int16"}
# Scale for a tensor of zeros. Zeros are exact in any positive scale. A tiny scale has no effect on
# a sum of this tensor and another tensor, because a sum uses the larger scale of its two operands.
TINY_SCALE = 1e-9
CONVERSIONS = ("QUANTIZE", "DEQUANTIZE", "CAST")


def compute_in_float32(content: bytes, all_but_products: bool) -> bytes:
    """Rewrite a quantized TFLite file to compute in float32 where integers are imprecise or wrong.

    With `all_but_products` all operations except `IN_INTEGERS` compute in float32. Otherwise only
    the `SELECTIONS`, and operations that mix float32 and integers, compute in float32.
    """
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for graph in model.subgraphs:
        _Graph(model, graph).give_scales()
        _Graph(model, graph).convert(all_but_products)
    packed: bytes = pack(model)
    return packed


def operations_in_float32(content: bytes) -> list[tuple[str, str]]:
    """List the operations that compute in float32, such as ("EXP", "name of its output")."""
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    kinds = operation_names(schema, model)
    return [
        (kind, graph.tensors[op.outputs[0]].name.decode())
        for graph in model.subgraphs
        for op in graph.operators or []
        if (kind := kinds[op.opcodeIndex]) not in CONVERSIONS
        and _any_float(graph, op.inputs)
        and _any_float(graph, op.outputs)
    ]


class _Graph:
    """A graph of a TFLite file; `convert` rewrites its operations to compute in float32."""

    def __init__(self, model: schema.ModelT, graph: schema.SubGraphT) -> None:
        self._model = model
        self._kinds: list[str] = operation_names(schema, model)
        self._graph = graph
        self._tensors = graph.tensors
        # Index of an integer tensor -> index of the float32 tensor with the dequantized values.
        self._float: dict[int, int] = {}

    def give_scales(self) -> None:
        """Replace each scale of 0 by a positive scale: 16-bit tensors of zeros have the scale 0."""
        constants = set(range(len(self._tensors)))
        constants -= {tensor for op in self._graph.operators or [] for tensor in op.outputs}
        for tensor in filter(self._is_integer, constants):
            self._give_scale(tensor, TINY_SCALE)
        for op in self._graph.operators or []:
            inputs = filter(self._is_integer, op.inputs)
            scale = max(
                (self._tensors[t].quantization.scale[0] for t in inputs), default=TINY_SCALE
            )
            for tensor in filter(self._is_integer, op.outputs):
                self._give_scale(tensor, scale)

    def _give_scale(self, tensor: int, scale: float) -> None:
        quantization = self._tensors[tensor].quantization
        if not np.any(quantization.scale):
            quantization.scale = np.full(len(quantization.scale), scale, "float32")

    def convert(self, all_but_products: bool) -> None:
        """Rewrite operations to float32; dequantize their inputs, and quantize their outputs."""
        operators = self._graph.operators or []
        chosen = {id(op) for op in operators if self._is_chosen(op, all_but_products)}
        if not chosen:
            return
        rewritten = set()
        for op in operators:
            kind = self._kind(op)
            if id(op) in chosen and kind != "QUANTIZE":
                rewritten |= {tensor for tensor in op.outputs if self._is_integer(tensor)}
            elif kind == "QUANTIZE" and not self._is_integer(op.inputs[0]):
                self._float[op.outputs[0]] = op.inputs[0]
            elif kind == "DEQUANTIZE" and op.inputs[0] in rewritten:
                self._float.setdefault(op.inputs[0], op.outputs[0])
        # Float32 tensors that rewritten operations write from now on. Drop each DEQUANTIZE
        # operation that wrote such a tensor before.
        unneeded = {self._float[tensor] for tensor in rewritten & self._float.keys()}
        remaining = [op for op in operators if not unneeded & set(op.outputs)]
        read = {tensor for op in remaining if id(op) not in chosen for tensor in op.inputs}
        self._graph.operators = []
        for op in remaining:
            if id(op) in chosen:
                self._write(op, read)
            else:
                self._graph.operators.append(op)
        self._drop_unread()

    def _is_chosen(self, op: schema.OperatorT, all_but_products: bool) -> bool:
        """Return whether an operation reads integers and must be rewritten to float32."""
        kind, inputs = self._kind(op), [tensor for tensor in op.inputs if tensor >= 0]
        if kind == "DEQUANTIZE" or kind in IN_INTEGERS or not any(map(self._is_integer, inputs)):
            return False
        mixed = kind != "QUANTIZE" and _any_float(self._graph, [*inputs, *op.outputs])
        return all_but_products or mixed or kind in SELECTIONS

    def _write(self, op: schema.OperatorT, read: set[int]) -> None:
        """Append an operation in float32, and quantize the outputs that integer operations read."""
        inputs = [self._in_float(t) if self._is_integer(t) else t for t in op.inputs]
        integers = [tensor for tensor in op.outputs if self._is_integer(tensor)]
        if self._kind(op) == "QUANTIZE":
            # A QUANTIZE of integers only changes their scale. Drop it: float32 has no scale.
            self._float[op.outputs[0]] = inputs[0]
        else:
            for tensor in integers:
                if tensor not in self._float:
                    self._float[tensor] = self._new(tensor)
            op.inputs = inputs
            op.outputs = [self._float.get(tensor, tensor) for tensor in op.outputs]
            self._graph.operators.append(op)
        for tensor in integers:
            if tensor in read:
                self._append("QUANTIZE", self._float[tensor], tensor)

    def _in_float(self, tensor: int) -> int:
        """Return the index of a float32 tensor with the dequantized values of an integer tensor."""
        if tensor not in self._float:
            data = self._model.buffers[self._tensors[tensor].buffer].data
            if data is not None and len(data):
                self._float[tensor] = self._new(tensor, self._dequantize(tensor, bytes(data)))
            else:
                self._float[tensor] = self._new(tensor)
                self._append("DEQUANTIZE", tensor, self._float[tensor])
        return self._float[tensor]

    def _dequantize(self, tensor: int, data: bytes) -> "npt.NDArray[np.float32]":
        old = self._tensors[tensor]
        shape = [] if old.shape is None else old.shape
        scale, zero = scale_and_zero(old, len(shape))
        values = np.frombuffer(data, INTEGERS[old.type]).reshape(shape)
        return np.asarray((values - zero) * scale, np.float32)

    def _new(self, tensor: int, constant: "npt.NDArray[np.float32] | None" = None) -> int:
        """Add a float32 tensor with the shape and name of `tensor`, and return its index."""
        new = copy.copy(self._tensors[tensor])
        new.type, new.quantization, new.buffer = schema.TensorType.FLOAT32, None, 0
        if constant is not None:
            self._model.buffers.append(schema.BufferT(np.frombuffer(constant.tobytes(), "uint8")))
            new.buffer = len(self._model.buffers) - 1
        self._tensors.append(new)
        return len(self._tensors) - 1

    def _append(self, kind: str, source: int, target: int) -> None:
        """Append a QUANTIZE or DEQUANTIZE operation that reads `source` and writes `target`.

        Every file in integers already has the opcodes of both operations.
        """
        op = schema.OperatorT()
        op.opcodeIndex = self._kinds.index(kind)
        op.inputs, op.outputs = [source], [target]
        self._graph.operators.append(op)

    def _drop_unread(self) -> None:
        """Remove each QUANTIZE and DEQUANTIZE whose output no operation reads."""
        read, used = set(self._graph.outputs), []
        for op in reversed(self._graph.operators):
            if self._kind(op) not in ("QUANTIZE", "DEQUANTIZE") or read & set(op.outputs):
                used.append(op)
                read |= set(op.inputs)
        self._graph.operators = used[::-1]

    def _kind(self, op: schema.OperatorT) -> str:
        return str(self._kinds[op.opcodeIndex])

    def _is_integer(self, tensor: int) -> bool:
        """Return whether a tensor stores real numbers as integers with a scale."""
        if tensor < 0 or self._tensors[tensor].type not in INTEGERS:
            return False
        return bool(has_scale(self._tensors[tensor]))


def _any_float(graph: schema.SubGraphT, tensors: Iterable[int]) -> bool:
    """Return whether at least one of the given tensors is in float32."""
    return any(t >= 0 and graph.tensors[t].type == schema.TensorType.FLOAT32 for t in tensors)
