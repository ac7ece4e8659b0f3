"""Read the signatures, operations and tensor types of a TFLite file, without loading it.

Every function that reads the file's content raises FileNotFoundError for a missing file and
ValueError for a damaged file.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import os
import pathlib
import struct
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import TypeAlias

from keras_norm.export.compare.tolerance import coarsest
from keras_norm.export.formats.tflite.tflite_schema import has_scale, operation_names
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm.typing import Json, Shape
from keras_norm_verify.printable import printable


@dataclasses.dataclass(frozen=True)
class SignatureTensor:
    """An input or output of a TFLite file's signature: its tensor, shape and dtype.

    Attributes:
        index: its index among the inputs or outputs of the graph.
        tensor: name of its tensor in the graph.
        shape: sizes; None for a dynamic dimension.
        dtype: NumPy's name of the dtype.
    """

    index: int
    tensor: str
    shape: Shape
    dtype: str


# Inputs or outputs of a signature by name.
Tensors: TypeAlias = dict[str, SignatureTensor]


@dataclasses.dataclass(frozen=True)
class TFLiteFile:
    """The signatures, operations and tensor types of a TFLite file.

    Attributes:
        signatures: names of the signatures, sorted.
        ops: the kinds of operation, by their names in the TFLite format.
        numbers: types that store real numbers, such as "float32". "int8" for integers with a scale;
            "int16" too, if some of them have 16 bits.
    """

    signatures: list[str]
    ops: frozenset[str]
    numbers: frozenset[str]

    @property
    def is_single_step(self) -> bool:
        """Whether the file's only signature is `step`, which runs one timestep in each call."""
        return self.signatures == [STEP]

    @property
    def computes_in_integers(self) -> bool:
        """Whether the file rounds activations to 8 or 16 bits."""
        return "QUANTIZE" in self.ops

    @property
    def quantize(self) -> str | None:
        """The argument `quantize` of the export that wrote the file; None for float32 weights."""
        if self.computes_in_integers:
            return "int16x8" if "int16" in self.numbers else "int8"
        return {"float16": "float16", "int8": "dynamic"}.get(coarsest(self.numbers))


def read_tflite(path: str | os.PathLike[str]) -> TFLiteFile:
    """Read the signatures, operations and tensor types of a TFLite file."""
    with parse_tflite(path) as (schema, model):
        dtypes, numbers = _dtypes(schema), set()
        for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
            dtype = dtypes.get(tensor.type, "")
            if has_scale(tensor):
                numbers |= {"int8"} | {"int16"} & {dtype}
            elif "float" in dtype:
                numbers.add(dtype)
        return TFLiteFile(
            sorted(map(_key, model.signatureDefs or ())),
            frozenset(operation_names(schema, model)),
            frozenset(numbers),
        )


def read_signature(
    path: str | os.PathLike[str], name: str = SERVING_DEFAULT
) -> tuple[Tensors, Tensors]:
    """Read the inputs and outputs of a signature of a TFLite file's main graph.

    Raises:
        ValueError: there is no such signature in the main graph.
    """
    with parse_tflite(path) as (schema, model):
        found = {_key(s): s for s in model.signatureDefs or () if s.subgraphIndex == 0}
        graph, signature = model.subgraphs[0], found.get(name)
        dtypes = _dtypes(schema)

        def tensors(entries: Json, indices: Iterable[int]) -> Tensors:
            result = {}
            for entry in entries or ():
                tensor = graph.tensors[entry.tensorIndex]
                # A tensor with dynamic dimensions has a `shapeSignature`, with -1 for each dynamic
                # dimension. Any other tensor has only a `shape`.
                sizes = tensor.shape if tensor.shapeSignature is None else tensor.shapeSignature
                sizes = () if sizes is None else sizes
                result[entry.name.decode()] = SignatureTensor(
                    list(indices).index(entry.tensorIndex),
                    (tensor.name or b"").decode(),
                    tuple(None if size < 0 else int(size) for size in sizes),
                    dtypes[tensor.type],
                )
            return result

        if signature is not None:
            inputs = tensors(signature.inputs, graph.inputs)
            return inputs, tensors(signature.outputs, graph.outputs)
    known = ", ".join(map(printable, sorted(found))) or "none"
    raise ValueError(
        f"{path} has no signature {name} in its main graph; the signatures there are: {known}"
    )


def _key(signature: Json) -> str:
    """Return the name of a signature, or raise ValueError if the signature has no name."""
    if signature.signatureKey is None:
        raise ValueError(
            "a signature has no name, so no program can call it; export the model again"
        )
    return str(signature.signatureKey.decode())


@contextlib.contextmanager
def parse_tflite(path: str | os.PathLike[str]) -> Iterator[tuple[ModuleType, Json]]:
    """Yield LiteRT's schema module and the parsed file (`ModelT`).

    Raises:
        ValueError: the file is damaged: the parser or the `with` block fails.
    """
    schema, content = _load_schema(), pathlib.Path(path).read_bytes()
    try:
        yield schema, schema.ModelT.InitFromPackedBuf(content, 0)
    # A damaged file may raise any of these errors: the parser does not check offsets, and returns
    # None for every field that the file lacks.
    except (struct.error, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


@functools.cache
def _load_schema() -> ModuleType:
    """Load LiteRT's schema module by its path: importing LiteRT would load native libraries."""
    package = importlib.util.find_spec("ai_edge_litert")
    if package is None or not package.submodule_search_locations:
        raise ImportError("TFLite files need ai_edge_litert: pip install ai-edge-litert")
    file = pathlib.Path(package.submodule_search_locations[0], "schema_py_generated.py")
    spec = importlib.util.spec_from_file_location("schema", file)
    assert spec is not None
    assert spec.loader is not None
    schema = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(schema)
    return schema


def _dtypes(schema: ModuleType) -> dict[int, str]:
    """Return NumPy's name of each type, by its number in the schema: {0: "float32", ...}."""
    return {code: kind.lower() for kind, code in vars(schema.TensorType).items() if kind.isupper()}
