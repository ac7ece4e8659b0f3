"""Turn the placeholders that `exporting.fusion` leaves in a TFLite file into LSTMs.

UNIDIRECTIONAL_SEQUENCE_LSTM reads h and c from variable tensors, and leaves the new h and c there.
TFLite clears variable tensors when it loads a file, not from call to call, and never gives them
another batch size (measured: the second call of a file with nothing but the LSTM is off by 0.5, and
one with more sequences fails). Here operations of the file itself write and size them, each time::

    h = ZEROS_LIKE(a tensor as large);  c = ZEROS_LIKE(the same);  y = LSTM(x, h, c)

They stand first in the file, and what is as large is made of an input by operations whose sizes
TFLite knows beforehand: it places variable tensors in memory once, as large as they are when it
meets the first operation whose size depends on values (measured: behind such an operation, LSTMs
write over other tensors).

Kernels may be stored in 8 bits, each with one scale::

    W = s Q        s = max|W| / 127        Q = round(W / s)

The operation then rounds x and h to 8 bits as they come, row by row; biases, gammas and states stay
in float32.
"""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

# The name of the placeholder; `keras_norm.export.exporting.fusion` has it too.
PLACEHOLDER = b"keras_norm_lstm"
ABSENT = -1


def fuse(content: bytes, eight_bits: bool = False) -> bytes:
    """Replace every placeholder.

    A placeholder takes x (batch, time, features), four kernels (units, features), four recurrent
    kernels (units, units), four biases (units,) and, with normalization, four gammas (units,), in
    TFLite's order of the gates, which is Keras'. It gives y (batch, time, units) and c after the
    last timestep (batch, units); its state before the first is zero.

    Args:
        content: a TFLite file.
        eight_bits: whether the kernels are stored so.

    Returns:
        The file with LSTM operations.

    Raises:
        ValueError: an operation is left that is no builtin, each named on a line of its own as the
            converter names them; or a placeholder stands in a loop.
    """
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    custom = {
        i: c.customCode for i, c in enumerate(model.operatorCodes) if c.customCode is not None
    }
    others = [name.decode() for name in custom.values() if name != PLACEHOLDER]
    if others:
        raise ValueError("not builtin operations:\n" + "\n".join(f"\ttf.{n}" for n in others))
    called = {signature.subgraphIndex for signature in model.signatureDefs}
    for i, graph in enumerate(model.subgraphs):
        lstms = [op for op in graph.operators or () if op.opcodeIndex in custom]
        if lstms and i not in called:
            raise ValueError("an LSTM in the loop of another layer cannot be fused")
        if lstms:
            _Graph(model, graph, eight_bits).replace(lstms)
    if eight_bits:
        _drop_unread(model)
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


class _Graph:
    """A subgraph whose operations are written anew."""

    def __init__(self, model: schema.ModelT, graph: schema.SubGraphT, eight_bits: bool) -> None:
        self._model = model
        self._graph = graph
        self._eight_bits = eight_bits
        self._rounded: dict[int, int] = {}

    def replace(self, placeholders: list[schema.OperatorT]) -> None:
        """Write LSTMs where placeholders stand, and their states before everything else."""
        old, self._graph.operators = self._graph.operators, []
        read = {tensor for operator in old for tensor in operator.inputs}
        read |= set(self._graph.outputs)
        row = self._row()
        states = {id(operator): self._states(row, operator) for operator in placeholders}
        for operator in old:
            if id(operator) in states:
                self._add_lstm(operator, *states[id(operator)], read)
            else:
                self._graph.operators.append(operator)

    def _row(self) -> int:
        """A tensor (batch, 1) of bool, a type that XNNPACK leaves to TFLite, in its place."""
        source = self._graph.inputs[0]
        rank = len(self._graph.tensors[source].shape)
        flags = self._tensor([1] * rank, schema.TensorType.BOOL)
        self._add("CAST", "Cast", [source], flags)
        if rank > 1:
            others = self._constant(np.arange(1, rank, dtype="int32"))
            flags, all_flags = self._tensor([1], schema.TensorType.BOOL), flags
            self._add("REDUCE_ANY", "Reducer", [all_flags, others], flags)
        row = self._tensor([1, 1], schema.TensorType.BOOL)
        shape = self._constant(np.array([-1, 1], "int32"))
        self._add("RESHAPE", "Reshape", [flags, shape], row).newShape = [-1, 1]
        return row

    def _states(self, row: int, placeholder: schema.OperatorT) -> tuple[int, int]:
        """The variable tensors h and c, and what writes zeros to them."""
        units = self._graph.tensors[placeholder.outputs[1]].shape[1]
        flags = self._tensor([1, units], schema.TensorType.BOOL)
        self._add("TILE", "Tile", [row, self._constant(np.array([1, units], "int32"))], flags)
        numbers = self._tensor([1, units], schema.TensorType.FLOAT32)
        self._add("CAST", "Cast", [flags], numbers)
        h, c = (self._tensor([1, units], schema.TensorType.FLOAT32) for _ in "hc")
        for state in (h, c):
            self._graph.tensors[state].isVariable = True
            self._add("ZEROS_LIKE", "ZerosLike", [numbers], state)
        return h, c

    def _add_lstm(self, placeholder: schema.OperatorT, h: int, c: int, read: set[int]) -> None:
        x, *weights = placeholder.inputs
        y, last_c = placeholder.outputs
        kernels, biases, gammas = weights[:8], weights[8:12], weights[12:]
        if self._eight_bits:
            kernels = [self._in_eight_bits(kernel) for kernel in kernels]
        peepholes, projection = [ABSENT] * 3, [ABSENT] * 2
        tensors = [x, *kernels, *peepholes, *biases, *projection, h, c, *gammas]
        options = self._add(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTM", tensors, y
        )
        options.fusedActivationFunction = schema.ActivationFunctionType.TANH
        if last_c in read:
            self._add_copy_after(y, c, last_c)

    def _in_eight_bits(self, kernel: int) -> int:
        """The constant with a kernel's Q and s."""
        if kernel not in self._rounded:
            old = self._graph.tensors[kernel]
            data = self._model.buffers[old.buffer].data
            values = np.frombuffer(bytes(data), "float32").reshape(old.shape)
            scale = float(np.abs(values).max()) / 127 or 1.0
            self._rounded[kernel] = index = self._constant(np.round(values / scale).astype("int8"))
            quantization = schema.QuantizationParametersT(scale=[scale], zeroPoint=[0])
            self._graph.tensors[index].quantization = quantization
        return self._rounded[kernel]

    def _add_copy_after(self, y: int, c: int, target: int) -> None:
        """Give c as it is after y: c + 0 * max(y), which no runtime can compute before y."""
        zero = self._constant(np.zeros([], "float32"))
        shape = list(self._graph.tensors[target].shape)
        largest = self._tensor(shape, schema.TensorType.FLOAT32)
        nothing = self._tensor(shape, schema.TensorType.FLOAT32)
        time = self._constant(np.array([1], "int32"))
        self._add("REDUCE_MAX", "Reducer", [y, time], largest)
        self._add("MUL", "Mul", [largest, zero], nothing)
        self._add("ADD", "Add", [c, nothing], target)

    def _add(self, name: str, options: str, inputs: list[int], output: int) -> schema.OperatorT:
        """Append a builtin operation; return its options."""
        operator = schema.OperatorT()
        operator.opcodeIndex = self._code(getattr(schema.BuiltinOperator, name))
        operator.inputs, operator.outputs = inputs, [output]
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, f"{options}Options")
        operator.builtinOptions = getattr(schema, f"{options}OptionsT")()
        self._graph.operators.append(operator)
        return operator.builtinOptions

    def _code(self, builtin: int) -> int:
        """The index of an operation, in its first version, among those of the file."""
        codes = self._model.operatorCodes
        for i, code in enumerate(codes):
            if (code.builtinCode, code.version) == (builtin, 1):
                return i
        # Where old readers look for codes that a byte can hold.
        old = min(builtin, schema.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES)
        codes.append(schema.OperatorCodeT(old, version=1, builtinCode=builtin))
        return len(codes) - 1

    def _constant(self, array: np.ndarray) -> int:
        self._model.buffers.append(schema.BufferT(np.frombuffer(array.tobytes(), "uint8")))
        kind = getattr(schema.TensorType, array.dtype.name.upper())
        index = self._tensor(list(array.shape), kind)
        tensor = self._graph.tensors[index]
        tensor.buffer, tensor.shapeSignature = len(self._model.buffers) - 1, None
        return index

    def _tensor(self, shape: list[int], dtype: int) -> int:
        """A new tensor; the first size is open, as TFLite finds sizes itself when it runs."""
        tensor = schema.TensorT()
        tensor.shape, tensor.shapeSignature = shape, [-1, *shape[1:]]
        tensor.hasRank, tensor.type = True, dtype
        tensor.name = b"fused_lstm_%d" % len(self._graph.tensors)
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1


def _drop_unread(model: schema.ModelT) -> None:
    """Let go of the constants that nothing reads any more."""
    kept = {entry.buffer for entry in model.metadata or ()}
    for graph in model.subgraphs:
        read = {*graph.inputs, *graph.outputs}
        read |= {tensor for operator in graph.operators or () for tensor in operator.inputs}
        for index, tensor in enumerate(graph.tensors):
            if index not in read:
                tensor.buffer = 0  # which is empty
        kept |= {tensor.buffer for tensor in graph.tensors}
    for index, buffer in enumerate(model.buffers):
        if index not in kept:
            buffer.data = None
