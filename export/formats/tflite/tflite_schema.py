"""Read operation names and quantization scales from a parsed TFLite file; pack the file.

Worker scripts import this module by its path.
"""

from typing import Any, TypeAlias

import flatbuffers
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
# LiteRT's schema module, or an object that the schema module parses from a file.
Schema: TypeAlias = Any


def operation_names(schema: Schema, model: Schema) -> list[str]:
    """Return the names of a file's operations, such as "ADD", in the order of its opcodes."""
    names = {code: name for name, code in vars(schema.BuiltinOperator).items()}
    found = []
    for entry in model.operatorCodes:
        # A TFLite file has two fields for an operation's code: a byte for old readers, and an int.
        # The larger of the two numbers is the code.
        code = max(entry.builtinCode, entry.deprecatedBuiltinCode)
        is_custom = names.get(code) == "CUSTOM"
        found.append(
            entry.customCode.decode() if is_custom else names.get(code, f"operation {code}")
        )
    return found


def has_scale(tensor: Schema) -> bool:
    """Return whether a tensor stores real numbers as integers with a scale."""
    scale = None if tensor.quantization is None else tensor.quantization.scale
    return scale is not None and len(scale) > 0


def scale_and_zero(tensor: Schema, rank: int) -> tuple[Array, Array]:
    """Return the scale and the zero point of a tensor: real number = (integer - zero) * scale.

    The results broadcast to `rank` axes. A tensor may have a scale for each index of one axis.
    """
    quantization = tensor.quantization
    sizes = [1] * rank
    if len(quantization.scale) > 1:
        sizes[quantization.quantizedDimension] = -1
    scale, zero = (
        np.asarray(numbers, "float64").reshape(sizes)
        for numbers in (quantization.scale, quantization.zeroPoint)
    )
    return scale, zero


def pack(model: Schema) -> bytes:
    """Encode a parsed and perhaps rewritten file (`ModelT`) as the bytes of a TFLite file."""
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
