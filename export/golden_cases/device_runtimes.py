"""Run an artifact in its runtime, in this process, with NumPy and the runtime only."""

import pathlib
from collections.abc import Callable

from keras_norm.export.golden_cases.golden_cases import GoldenCasesError, RunSignature
from keras_norm.typing import Arrays


def open_artifact(path: pathlib.Path) -> RunSignature:
    """Load an artifact in its runtime.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.

    Returns:
        A function from a signature's name and its inputs to its outputs.

    Raises:
        GoldenCasesError: the runtime is not installed.
        Exception: any exception of the runtime, if it cannot load the file.
    """
    if path.is_dir():
        return RUNTIMES["saved_model"](path)
    return RUNTIMES["onnx" if path.suffix == ".onnx" else "tflite"](path)


def _open_saved_model(path: pathlib.Path) -> RunSignature:
    try:
        import tensorflow as tf
    except ImportError as error:
        raise _not_installed(path, "TensorFlow", "tensorflow") from error
    loaded = tf.saved_model.load(str(path))

    def run(signature: str, inputs: Arrays) -> Arrays:
        if signature not in loaded.signatures:
            raise ValueError(f"the SavedModel has no signature {signature}")
        function = loaded.signatures[signature]
        specs = function.structured_input_signature[1]
        outputs = function(**{n: tf.cast(a, specs[n].dtype) for n, a in inputs.items()})
        wide = {n: tf.cast(t, "float32") for n, t in outputs.items() if t.dtype == tf.bfloat16}
        return {name: tensor.numpy() for name, tensor in (outputs | wide).items()}

    return run


def _open_tflite(path: pathlib.Path) -> RunSignature:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise _not_installed(path, "LiteRT", "ai-edge-litert") from error
    interpreter = Interpreter(model_path=str(path))
    runners: dict[str, Callable[..., Arrays]] = {}

    def run(signature: str, inputs: Arrays) -> Arrays:
        if signature not in runners:
            runners[signature] = interpreter.get_signature_runner(signature)
        return runners[signature](**inputs)

    return run


def _open_onnx(path: pathlib.Path) -> RunSignature:
    try:
        import onnxruntime
    except ImportError as error:
        raise _not_installed(path, "ONNX Runtime", "onnxruntime") from error
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(signature: str, inputs: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run


def _not_installed(path: pathlib.Path, runtime: str, package: str) -> GoldenCasesError:
    return GoldenCasesError(
        f"{path} needs {runtime}, which is not installed: pip install {package}"
    )


# Name of a built-in format -> function that loads an artifact of the format.
RUNTIMES: dict[str, Callable[[pathlib.Path], RunSignature]] = {
    "saved_model": _open_saved_model,
    "tflite": _open_tflite,
    "onnx": _open_onnx,
}
