"""Read what stands in a TFLite file, without loading it.

All that reads within it raises FileNotFoundError where there is no file, and ValueError where it is
damaged.
"""

import importlib.util
import os
import pathlib
import struct
import types
from typing import Any

from keras_norm.export.signature import SERVING_DEFAULT, STEP

# The operation that is a whole LSTM.
FUSED_LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"


def tflite_schema() -> types.ModuleType:
    """LiteRT's description of the file format, without the native libraries that it would load."""
    package = importlib.util.find_spec("ai_edge_litert")
    folder = pathlib.Path(package.submodule_search_locations[0])  # type: ignore[union-attr, index]
    spec = importlib.util.spec_from_file_location("schema", folder / "schema_py_generated.py")
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def is_tflite(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a file that begins as TFLite files do, whatever its name.

    Args:
        path: a file or folder, which need not exist.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(8)[4:] == b"TFL3"


def read_tflite(path: str | os.PathLike[str]) -> Any:
    """Parse a TFLite file into the `ModelT` of its schema.

    Args:
        path: a .tflite file.
    """
    schema = tflite_schema()
    try:
        return schema.ModelT.InitFromPackedBuf(pathlib.Path(path).read_bytes(), 0)
    except (struct.error, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def tflite_ends(
    path: str | os.PathLike[str], name: str = SERVING_DEFAULT
) -> tuple[dict[str, tuple[int, str]], dict[str, tuple[int, str]]]:
    """Read the inputs and outputs of a signature of a TFLite file's main graph.

    Args:
        path: a .tflite file.
        name: of the signature.

    Returns:
        (inputs, outputs), each name -> its place among those of the graph, and the tensor's name.

    Raises:
        ValueError: there is no such signature in the main graph.
    """
    model = read_tflite(path)
    found = {s.signatureKey.decode(): s for s in model.signatureDefs or () if s.subgraphIndex == 0}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise ValueError(f"{path} has no signature {name} in its main graph; there: {known}")
    graph, signature = model.subgraphs[0], found[name]

    def ends(entries: Any, places: Any) -> dict[str, tuple[int, str]]:
        return {
            e.name.decode(): (
                list(places).index(e.tensorIndex),
                graph.tensors[e.tensorIndex].name.decode(),
            )
            for e in entries or ()
        }

    return ends(signature.inputs, graph.inputs), ends(signature.outputs, graph.outputs)


def computes_in_integers(path: str | os.PathLike[str]) -> bool:
    """Whether a TFLite file rounds numbers to 8 or 16 bits on their way, by an operation QUANTIZE.

    Args:
        path: a .tflite file.
    """
    quantize = tflite_schema().BuiltinOperator.QUANTIZE
    # Old files keep the code in a byte, new ones in an int: the larger one counts.
    codes = read_tflite(path).operatorCodes
    return any(max(c.builtinCode, c.deprecatedBuiltinCode) == quantize for c in codes)


def tflite_signatures(path: str | os.PathLike[str]) -> list[str]:
    """Names of the signatures in a TFLite file.

    Args:
        path: a .tflite file.
    """
    return sorted(s.signatureKey.decode() for s in read_tflite(path).signatureDefs or ())


def is_step_alone(path: str | os.PathLike[str]) -> bool:
    """Whether a TFLite file has the signature `step` and no other.

    Args:
        path: a .tflite file.
    """
    return tflite_signatures(path) == [STEP]
