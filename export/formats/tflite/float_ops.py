"""Let operations of a quantized TFLite file compute in float32.

Around an operation the file converts: integers are dequantized before it, and its outputs are
quantized for operations that read integers. Two kinds of operations need it:

- In 16 bits TensorFlow's quantizer leaves operations in float32 that have no kernel of 16 bits. It
  forgets to convert an input that another operation reads as integers. (Measured: -x beside 2 x was
  off by 1e4; ELU does not run.)
- In 8 bits values of very different sizes lose the small ones: a sigmoid is one of 256 numbers, so
  that a forget gate is at most 255/256; a variance below 1/256 of the largest is 0. In 16 bits
  LOG and RSQRT are read from a table of 512 numbers.
"""

import copy
from collections.abc import Iterable

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

# Products of matrices and tables, whose weights are what makes a file large; and what has graphs of
# its own. All else costs little in float32.
IN_INTEGERS = frozenset(
    getattr(schema.BuiltinOperator, name)
    for name in (
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
)
# In 16 bits TensorFlow's quantizer gives what is selected from another scale than the result.
SELECTIONS = frozenset([schema.BuiltinOperator.SELECT, schema.BuiltinOperator.SELECT_V2])
INTEGERS = {schema.TensorType.INT8: "int8", schema.TensorType.INT16: "int16"}
QUANTIZE, DEQUANTIZE = schema.BuiltinOperator.QUANTIZE, schema.BuiltinOperator.DEQUANTIZE
# A sum takes the larger scale of its operands for both.
TINY = 1e-9
CONVERSIONS = (QUANTIZE, DEQUANTIZE, schema.BuiltinOperator.CAST)


def compute_in_float32(content: bytes, all_but_products: bool) -> bytes:
    """Let operations compute in float32.

    Args:
        content: a TFLite file with inputs and outputs in float32.
        all_but_products: whether all do but `IN_INTEGERS`, or those alone that mix float32 and
            integers.
    """
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for graph in model.subgraphs:
        _Graph(model, graph).give_scales()
        _Graph(model, graph).convert(all_but_products)
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def operations_in_float32(content: bytes) -> list[tuple[str, str]]:
    """The kind of each operation that computes in float32, and the name of its first output.

    Args:
        content: a TFLite file.
    """
    kinds = {code: name for name, code in vars(schema.BuiltinOperator).items()}
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    return [
        (kinds[kind], graph.tensors[op.outputs[0]].name.decode())
        for graph in model.subgraphs
        for op in graph.operators or []
        if (kind := _kind(model, op)) not in CONVERSIONS
        and _any_float(graph, op.inputs)
        and _any_float(graph, op.outputs)
    ]


class _Graph:
    """A subgraph whose operations are written anew."""

    def __init__(self, model: schema.ModelT, graph: schema.SubGraphT) -> None:
        self._model = model
        self._graph = graph
        self._tensors = graph.tensors
        # The tensor in float32, by that in integers.
        self._float: dict[int, int] = {}

    def give_scales(self) -> None:
        """Give a scale to what is zero throughout, which in 16 bits has the scale 0."""
        constants = set(range(len(self._tensors)))
        constants -= {tensor for op in self._graph.operators or [] for tensor in op.outputs}
        for tensor in filter(self._is_integer, constants):
            self._give_scale(tensor, TINY)
        for op in self._graph.operators or []:
            inputs = filter(self._is_integer, op.inputs)
            scale = max((self._tensors[t].quantization.scale[0] for t in inputs), default=TINY)
            for tensor in filter(self._is_integer, op.outputs):
                self._give_scale(tensor, scale)

    def _give_scale(self, tensor: int, scale: float) -> None:
        quantization = self._tensors[tensor].quantization
        if not np.any(quantization.scale):
            quantization.scale = np.full(len(quantization.scale), scale, "float32")

    def convert(self, all_but_products: bool) -> None:
        """Write the chosen operations, and what converts their inputs and outputs."""
        operators = self._graph.operators or []
        chosen = {id(op) for op in operators if self._is_chosen(op, all_but_products)}
        if not chosen:
            return
        made = set()
        for op in operators:
            kind = self._kind(op)
            if id(op) in chosen and kind != QUANTIZE:
                made |= {tensor for tensor in op.outputs if self._is_integer(tensor)}
            elif kind == QUANTIZE and not self._is_integer(op.inputs[0]):
                self._float[op.outputs[0]] = op.inputs[0]
            elif kind == DEQUANTIZE and op.inputs[0] in made:
                self._float.setdefault(op.inputs[0], op.outputs[0])
        # A chosen operation writes what was dequantized.
        needless = {self._float[tensor] for tensor in made & self._float.keys()}
        kept = [op for op in operators if not needless & set(op.outputs)]
        read = {tensor for op in kept if id(op) not in chosen for tensor in op.inputs}
        self._graph.operators = []
        for op in kept:
            if id(op) in chosen:
                self._write(op, read)
            else:
                self._graph.operators.append(op)
        self._drop_unread()

    def _is_chosen(self, op: schema.OperatorT, all_but_products: bool) -> bool:
        """Whether an operation reads integers, and is to compute in float32."""
        kind, inputs = self._kind(op), [tensor for tensor in op.inputs if tensor >= 0]
        if kind == DEQUANTIZE or kind in IN_INTEGERS or not any(map(self._is_integer, inputs)):
            return False
        mixed = kind != QUANTIZE and _any_float(self._graph, [*inputs, *op.outputs])
        return all_but_products or mixed or kind in SELECTIONS

    def _write(self, op: schema.OperatorT, read: set[int]) -> None:
        """Append an operation in float32, and its outputs in integers where those are read."""
        inputs = [self._in_float(t) if self._is_integer(t) else t for t in op.inputs]
        integers = [tensor for tensor in op.outputs if self._is_integer(tensor)]
        if self._kind(op) == QUANTIZE:  # to another scale
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
                self._append(QUANTIZE, self._float[tensor], tensor)

    def _in_float(self, tensor: int) -> int:
        """The tensor with the same numbers in float32."""
        if tensor not in self._float:
            data = self._model.buffers[self._tensors[tensor].buffer].data
            if data is not None and len(data):
                self._float[tensor] = self._new(tensor, self._dequantized(tensor, bytes(data)))
            else:
                self._float[tensor] = self._new(tensor)
                self._append(DEQUANTIZE, tensor, self._float[tensor])
        return self._float[tensor]

    def _dequantized(self, tensor: int, data: bytes) -> np.ndarray:
        old = self._tensors[tensor]
        shape = [] if old.shape is None else old.shape
        values = np.frombuffer(data, INTEGERS[old.type]).reshape(shape)
        scale, zero = (np.asarray(x) for x in (old.quantization.scale, old.quantization.zeroPoint))
        if len(scale) > 1:  # one for each index of an axis
            sizes = [1] * values.ndim
            sizes[old.quantization.quantizedDimension] = -1
            scale, zero = scale.reshape(sizes), zero.reshape(sizes)
        return ((values - zero) * scale).astype("float32")

    def _new(self, tensor: int, constant: np.ndarray | None = None) -> int:
        """A tensor in float32 of the shape and name of another."""
        new = copy.copy(self._tensors[tensor])
        new.type, new.quantization, new.buffer = schema.TensorType.FLOAT32, None, 0
        if constant is not None:
            self._model.buffers.append(schema.BufferT(np.frombuffer(constant.tobytes(), "uint8")))
            new.buffer = len(self._model.buffers) - 1
        self._tensors.append(new)
        return len(self._tensors) - 1

    def _append(self, kind: int, source: int, target: int) -> None:
        """Append a QUANTIZE or a DEQUANTIZE, both of which a file in integers has."""
        op = schema.OperatorT()
        op.opcodeIndex = next(
            i for i, code in enumerate(self._model.operatorCodes) if code.builtinCode == kind
        )
        op.inputs, op.outputs = [source], [target]
        self._graph.operators.append(op)

    def _drop_unread(self) -> None:
        """Leave out what converts tensors that nothing reads any more."""
        read, kept = set(self._graph.outputs), []
        for op in reversed(self._graph.operators):
            if self._kind(op) not in (QUANTIZE, DEQUANTIZE) or read & set(op.outputs):
                kept.append(op)
                read |= set(op.inputs)
        self._graph.operators = kept[::-1]

    def _kind(self, op: schema.OperatorT) -> int:
        return _kind(self._model, op)

    def _is_integer(self, tensor: int) -> bool:
        """Whether integers with a scale stand for real numbers."""
        if tensor < 0 or self._tensors[tensor].type not in INTEGERS:
            return False
        quantization = self._tensors[tensor].quantization
        return quantization is not None and quantization.scale is not None


def _kind(model: schema.ModelT, op: schema.OperatorT) -> int:
    """The operation's number in `BuiltinOperator`."""
    code = model.operatorCodes[op.opcodeIndex]
    # Old files keep it in a byte.
    return max(code.builtinCode, code.deprecatedBuiltinCode)


def _any_float(graph: schema.SubGraphT, tensors: Iterable[int]) -> bool:
    """Whether one of the tensors is in float32."""
    return any(t >= 0 and graph.tensors[t].type == schema.TensorType.FLOAT32 for t in tensors)
