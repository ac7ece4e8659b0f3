"""The table of formats that the verifier can run, and of their runtimes."""

import dataclasses
import pathlib
from collections.abc import Callable, Collection

from keras_norm_verify.golden_cases import GoldenCasesError, RunSignature
from keras_norm_verify.run_over_time import Arrays
from keras_norm_verify.saved_model import (
    HASHED,
    load_saved_model,
    require_literal,
    saved_model_folder,
)


@dataclasses.dataclass(frozen=True)
class Runtime:
    """A format of artifacts, such as TFLite, and the runtime that runs artifacts of this format.

    Attributes:
        title: name of the format in a sentence, such as "a TFLite file".
        recognizes: whether an existing path is of this format.
        load: takes the path of an artifact; returns a function from a signature's name and its
            inputs to its outputs. An ImportError means that the runtime is not installed.
        package: the package of the runtime, as in `pip install package`; "" for the name of the
            module that cannot be imported.
        find: takes an existing path of this format; returns the path of the artifact, such as the
            highest version in a folder. Raises GoldenCasesError if there is no artifact.
        check_path: raises ValueError for a path that the runtime cannot read.
        hashed: names in the folder of an artifact whose content determines the outputs; empty for
            all files.
    """

    title: str
    recognizes: Callable[[pathlib.Path], bool]
    load: Callable[[pathlib.Path], RunSignature]
    package: str = ""
    find: Callable[[pathlib.Path], pathlib.Path] = lambda path: path
    check_path: Callable[[pathlib.Path], object] = lambda path: None
    hashed: Collection[str] = ()


def is_tflite(path: pathlib.Path) -> bool:
    """Return whether a path is a TFLite file, by its name or by its first bytes.

    Args:
        path: a file or folder.
    """
    if not path.is_file() or path.suffix == ".tflite":
        return path.is_file()
    with path.open("rb") as file:
        return file.read(8)[4:] == b"TFL3"


def _is_onnx(path: pathlib.Path) -> bool:
    return path.suffix == ".onnx" and not is_tflite(path)


def _load_tflite(path: pathlib.Path) -> RunSignature:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path))
    runners: dict[str, Callable[..., Arrays]] = {}

    def run(signature: str, inputs: Arrays) -> Arrays:
        if signature not in runners:
            runners[signature] = interpreter.get_signature_runner(signature)
        return runners[signature](**inputs)

    return run


def _load_onnx(path: pathlib.Path) -> RunSignature:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(signature: str, inputs: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run


# Name of a format -> its runtime. If several formats recognize a path, the last format is used, so
# that a user's format, which is registered later, has priority over the built-in formats.
RUNTIMES = {
    "saved_model": Runtime(
        "a SavedModel folder",
        pathlib.Path.is_dir,
        load_saved_model,
        "tensorflow",
        saved_model_folder,
        require_literal,
        HASHED,
    ),
    "tflite": Runtime("a TFLite file", is_tflite, _load_tflite, "ai-edge-litert"),
    "onnx": Runtime("an ONNX file", _is_onnx, _load_onnx, "onnxruntime"),
}


def name_of_format(path: pathlib.Path) -> str | None:
    """Return the name of the format of an existing path; None if no format recognizes it."""
    names = (name for name, runtime in reversed(RUNTIMES.items()) if runtime.recognizes(path))
    return next(names, None)


def require_known(path: pathlib.Path) -> str:
    """Return the name of the format of an existing path, such as "tflite".

    Raises:
        GoldenCasesError: no format recognizes the path. The message lists the formats.
    """
    if (name := name_of_format(path)) is not None:
        return name
    if path.suffix in (".keras", ".h5"):
        raise GoldenCasesError(
            f"{path} is a Keras model, not an exported file. Export it: keras-norm export. To "
            "compare two models: keras-norm compare. To load it: keras.saving.load_model(path)"
        )
    *others, last = (runtime.title for runtime in RUNTIMES.values())
    raise GoldenCasesError(f"{path} is not {', '.join(others)} or {last}")


def load_artifact(path: pathlib.Path) -> RunSignature:
    """Load an artifact in its runtime, and return a function that runs the artifact.

    Args:
        path: the path of an artifact.

    Returns:
        A function from a signature's name and its inputs to its outputs.

    Raises:
        GoldenCasesError: the format is unknown, the runtime is not installed, or a SavedModel may
            access files, the Python process or other machines.
        Exception: any exception of the runtime, if it cannot load the file.
    """
    runtime = RUNTIMES[require_known(path)]
    try:
        return runtime.load(path)
    except ImportError as error:
        package = runtime.package or error.name
        raise GoldenCasesError(
            f"{path} needs {package}, which is not installed: pip install {package}"
        ) from error
