"""Run a model wherever it stands: each runner maps named arrays to named arrays."""

from keras_norm.export.runners.c_api_runner import CApiRunner
from keras_norm.export.runners.keras_runner import KerasRunner
from keras_norm.export.runners.micro_runner import MicroRunner
from keras_norm.export.runners.onnx_runner import ONNXRunner
from keras_norm.export.runners.open import open_runner
from keras_norm.export.runners.openvino_runner import OpenVINORunner
from keras_norm.export.runners.runner import Arrays, Run, Runner
from keras_norm.export.runners.saved_model_runner import SavedModelRunner, fixed_specs
from keras_norm.export.runners.tflite_runner import TFLiteRunner
from keras_norm.export.runners.worker_runner import TIMEOUT, WorkerRunner

__all__ = [
    "TIMEOUT",
    "Arrays",
    "CApiRunner",
    "KerasRunner",
    "MicroRunner",
    "ONNXRunner",
    "OpenVINORunner",
    "Run",
    "Runner",
    "SavedModelRunner",
    "TFLiteRunner",
    "WorkerRunner",
    "fixed_specs",
    "open_runner",
]
