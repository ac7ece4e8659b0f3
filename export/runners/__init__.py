"""Run a model wherever it stands: each runner maps named arrays to named arrays."""

from keras_norm.export.runners.keras_runner import KerasRunner
from keras_norm.export.runners.onnx_runner import ONNXRunner
from keras_norm.export.runners.open import open_runner
from keras_norm.export.runners.openvino_runner import OpenVINORunner
from keras_norm.export.runners.runner import Arrays, Run, Runner
from keras_norm.export.runners.saved_model_runner import CApiRunner, SavedModelRunner
from keras_norm.export.runners.tflite_runner import MicroRunner, TFLiteRunner
from keras_norm.export.runners.worker_runner import WorkerRunner

__all__ = [
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
    "open_runner",
]
