"""TFLite files with a changed content, such as damage or an operation of another name."""

import pathlib
from collections.abc import Callable
from typing import Any

import flatbuffers
from ai_edge_litert import schema_py_generated as schema


def rewritten(
    path: pathlib.Path, target: pathlib.Path, change: Callable[[Any, Any], None]
) -> pathlib.Path:
    """Write a TFLite file again after change(model, schema)."""
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    change(model, schema)
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    target.write_bytes(bytes(builder.Output()))
    return target
