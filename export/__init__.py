"""Write a Keras model as SavedModel, TFLite or ONNX, and prove that the file computes the same."""

from keras_norm.export.checking.assert_consistent import assert_consistent
from keras_norm.export.checking.check import check
from keras_norm.export.checking.versions import compare_versions
from keras_norm.export.errors import (
    ConversionError,
    RunnerError,
    StreamingError,
    UnsupportedOpError,
    VerificationError,
)
from keras_norm.export.exporting.onnx import export_onnx
from keras_norm.export.exporting.saved_model import export_saved_model
from keras_norm.export.exporting.streaming import Step
from keras_norm.export.exporting.tflite import export_tflite
from keras_norm.export.report.report import Report
from keras_norm.export.runners import open_runner

__all__ = [
    "ConversionError",
    "Report",
    "RunnerError",
    "Step",
    "StreamingError",
    "UnsupportedOpError",
    "VerificationError",
    "assert_consistent",
    "check",
    "compare_versions",
    "export_onnx",
    "export_saved_model",
    "export_tflite",
    "open_runner",
]
