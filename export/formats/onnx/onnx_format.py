"""The format ONNX."""

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
    foreign_ops=lambda path, ops: {op for op in ops if "." in op},  # of another domain than ONNX's
    trace_script="onnx/run_onnx.py",
)
