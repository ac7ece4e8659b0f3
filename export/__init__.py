"""Export a Keras model as SavedModel, TFLite or ONNX, and check the file against the model."""

from keras_norm.export.checks.assert_consistent import assert_consistent
from keras_norm.export.checks.check import check
from keras_norm.export.checks.compare_versions import compare_versions
from keras_norm.export.errors import (
    ConversionError,
    RunnerError,
    StreamingError,
    UnsupportedOpError,
    VerificationError,
)
from keras_norm.export.formats.onnx.export_onnx import export_onnx
from keras_norm.export.formats.open_runner import open_runner
from keras_norm.export.formats.saved_model.export_saved_model import export_saved_model
from keras_norm.export.formats.tflite.export_tflite import export_tflite
from keras_norm.export.formats.tflite.write_c_header import write_c_header
from keras_norm.export.formats.vocabulary_files import write_vocabularies
from keras_norm.export.model.single_step import Step
from keras_norm.export.model.split_text_model import split_text_model
from keras_norm.export.report.report import Report
from keras_norm.export.report.version_report import VersionReport
from keras_norm.export.runtimes.runner import Runner
from keras_norm_verify.golden_cases import GoldenCasesError
from keras_norm_verify.verify import verify

__all__ = [
    "ConversionError",
    "GoldenCasesError",
    "Report",
    "Runner",
    "RunnerError",
    "Step",
    "StreamingError",
    "UnsupportedOpError",
    "VerificationError",
    "VersionReport",
    "assert_consistent",
    "check",
    "compare_versions",
    "export_onnx",
    "export_saved_model",
    "export_tflite",
    "open_runner",
    "split_text_model",
    "verify",
    "write_c_header",
    "write_vocabularies",
]
