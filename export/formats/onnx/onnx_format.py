"""The description of the ONNX format for the registry of formats."""

import pathlib
from collections.abc import Collection

from keras_norm.export.compare.tolerance import coarsest
from keras_norm.export.formats.artifact_format import Format, Ops, Source, in_runtime
from keras_norm.export.formats.onnx.export_onnx import export_onnx
from keras_norm.export.formats.onnx.onnx_runner import ONNXRunner
from keras_norm.export.optional_packages import require


def _sources(path: pathlib.Path, name: str) -> tuple[Source, ...]:
    require("onnx")
    from keras_norm.export.formats.onnx import onnx_graph

    stored = onnx_graph.precisions(onnx_graph.read(path))
    return in_runtime(ONNXRunner, path, name, coarsest(stored))


def _foreign_ops(path: pathlib.Path, ops: Ops) -> Collection[str]:
    """Return the operations of a domain other than ONNX's, which are named "domain.Op"."""
    return {op for op in ops if "." in op}


ONNX = Format(
    name="onnx",
    title="an ONNX file",
    file_name="model.onnx",
    recognizes=lambda path: path.suffix == ".onnx",
    export=export_onnx,
    open=ONNXRunner,
    sources=_sources,
    foreign_ops=_foreign_ops,
    trace_script="onnx/run_onnx.py",
)
