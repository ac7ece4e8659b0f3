"""The coarsest number format that a model's values pass through."""

import importlib.util
import os
import pathlib
import struct
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_norm.export.compare import coarsest
from keras_norm.walk import named_layers


def model_precision(model: Any, outputs: Mapping[str, np.ndarray]) -> str:
    """Coarsest compute dtype of a Keras model's layers and of its outputs.

    Args:
        model: a built Keras model.
        outputs: its outputs, by name.

    Returns:
        A key of `keras_norm.export.compare.TOLERANCES`.
    """
    layers = (layer.compute_dtype for _, layer in named_layers(model))
    return coarsest([*layers, *(value.dtype.name for value in outputs.values())])


def tflite_precision(path: str | os.PathLike[str]) -> str:
    """Coarsest precision of the tensors stored in a TFLite file: "int8" when weights are quantized.

    Args:
        path: a .tflite file.

    Returns:
        A key of `keras_norm.export.compare.TOLERANCES`.

    Raises:
        ValueError: the file is damaged.
    """
    schema = _schema()
    try:
        model = schema.ModelT.InitFromPackedBuf(pathlib.Path(path).read_bytes(), 0)
    except (struct.error, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    names = {
        schema.TensorType.FLOAT64: "float64",
        schema.TensorType.FLOAT32: "float32",
        schema.TensorType.FLOAT16: "float16",
        schema.TensorType.BFLOAT16: "bfloat16",
    }
    found = set()
    for subgraph in model.subgraphs:
        for tensor in subgraph.tensors:
            scale = tensor.quantization.scale if tensor.quantization is not None else None
            quantized = scale is not None and len(scale) > 0
            found.add("int8" if quantized else names.get(tensor.type, ""))
    return coarsest(found)


def _schema() -> types.ModuleType:
    """LiteRT's description of the file format, without the native libraries that it would load."""
    package = importlib.util.find_spec("ai_edge_litert")
    folder = pathlib.Path(package.submodule_search_locations[0])  # type: ignore[union-attr, index]
    spec = importlib.util.spec_from_file_location("schema", folder / "schema_py_generated.py")
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module
