"""Define the `Format` of ONNX files: how they are written, opened and checked."""

from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.onnx.export_onnx import export_onnx
from keras_norm.export.formats.onnx.onnx_runner import ONNXRunner, onnx_sources
from keras_norm_verify.runtimes import RUNTIMES

ONNX = Format(
    name="onnx",
    runtime=RUNTIMES["onnx"],
    file_name="model.onnx",
    export=export_onnx,
    open=ONNXRunner,
    sources=onnx_sources,
    # An operation of a domain other than ONNX's is named "domain.Op", as in "com.microsoft.Gelu".
    foreign_ops=lambda path, ops: {op for op in ops if "." in op},
    trace_script="onnx/run_onnx.py",
)
