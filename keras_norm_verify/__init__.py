"""Run an exported file on its golden cases, and compare the outputs with the expected outputs.

    python -m keras_norm_verify model.tflite

`keras_norm.export` stores golden cases with each file: inputs, expected outputs, tolerances and a
hash of the file. This package needs NumPy and the runtime of the file: LiteRT for TFLite files,
ONNX Runtime for ONNX files, TensorFlow for SavedModels. It imports nothing from keras_norm, so this
folder can be copied to a device.
"""

from keras_norm_verify.artifact import read_golden_cases
from keras_norm_verify.golden_cases import GoldenCase, GoldenCases, GoldenCasesError
from keras_norm_verify.runtimes import RUNTIMES, Runtime
from keras_norm_verify.verify import verify

__all__ = [
    "RUNTIMES",
    "GoldenCase",
    "GoldenCases",
    "GoldenCasesError",
    "Runtime",
    "read_golden_cases",
    "verify",
]
