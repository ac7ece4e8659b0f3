"""The format ONNX."""

from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.onnx.export_onnx import export_onnx
from keras_norm.export.formats.onnx.onnx_runner import ONNXRunner, foreign_onnx_ops, onnx_sources
from keras_norm_verify.runtimes import RUNTIMES

ONNX = Format(
    name="onnx",
    runtime=RUNTIMES["onnx"],
    file_name="model.onnx",
    export=export_onnx,
    open=ONNXRunner,
    sources=onnx_sources,
    foreign_ops=foreign_onnx_ops,
    trace_script="onnx/run_onnx.py",
)
