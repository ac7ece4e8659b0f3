"""Find an artifact and its golden cases, hash its files, and load it in its runtime."""

import hashlib
import os
import pathlib
import zipfile
from collections.abc import Callable

from keras_norm.export.golden_cases.golden_cases import (
    GoldenCases,
    GoldenCasesError,
    RunSignature,
    require_size,
)
from keras_norm.export.golden_cases.golden_cases_parser import (
    damaged,
    parse_golden_cases,
    unpack_entry,
)
from keras_norm.export.golden_cases.unsafe_ops import describe_unsafe_ops, find_unsafe_ops
from keras_norm.export.printable import printable_error
from keras_norm.typing import Arrays

# Golden cases are stored in a SavedModel's folder; beside a TFLite or ONNX file, in a file with its
# name and SUFFIX; or in an archive at the end of a TFLite file.
FILE_NAME = "golden.npz"
IN_FOLDER = pathlib.PurePath("assets.extra", FILE_NAME)
SUFFIX = ".golden.npz"
# Files and folders of a SavedModel whose content is hashed. Other programs may add further files.
HASHED = ("saved_model.pb", "fingerprint.pb", "variables", "assets")
# First bytes of .npz and .npy files.
NPZ_BYTES, NPY_BYTES = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"
# Characters in a path that TensorFlow's loader reads as a pattern of file names.
PATTERN = frozenset("*?[\\") if os.sep == "/" else frozenset("*?[")


def golden_cases_path(path: pathlib.Path) -> pathlib.Path:
    """Return the path of the golden cases of an artifact, in its folder or beside its file.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.
    """
    return path / IN_FOLDER if path.is_dir() else path.with_name(path.name + SUFFIX)


def read_golden_cases(path: pathlib.Path, file: pathlib.Path | None = None) -> GoldenCases:
    """Find and read the golden cases of an artifact.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.
        file: file of the golden cases; None for the path at which exporters write it.

    Raises:
        GoldenCasesError: the golden cases are missing or unusable.
    """
    path = resolve_version(path)
    if path.suffix in (".keras", ".h5"):
        raise GoldenCasesError(
            f"{path} is a Keras model, not an exported file. Export it, and verify the exported "
            f"file: keras-norm export model.keras --to DIR"
        )
    usual = golden_cases_path(path)
    try:
        if file is not None:
            require_file(file)
        found = file or usual
        if found.is_file():
            require_size(found.stat().st_size)
            return parse_golden_cases(found.read_bytes())
        if _archive_offset(path) is not None:
            return parse_golden_cases(_unpack_inside(path))
    except OSError as error:
        raise GoldenCasesError(printable_error(error)) from error
    if path.suffix in (".npz", ".npy"):
        artifact = path.name.removesuffix(SUFFIX)
        raise GoldenCasesError(
            f"{path} is a file of arrays, not an exported file. Give the exported file"
            + (f": {path.with_name(artifact)}" if artifact != path.name else "")
        )
    raise GoldenCasesError(
        f"{path} has no golden cases: there is no {usual.name}. Give the file of the golden "
        "cases, or export the model again"
    )


def resolve_version(path: pathlib.Path) -> pathlib.Path:
    """Return the path of an artifact; in a folder of versions, the path of the highest version.

    Args:
        path: a SavedModel's folder, a folder of numbered versions, or a TFLite or ONNX file.

    Raises:
        GoldenCasesError: the path does not exist, or cannot be read.
    """
    try:
        if not path.exists():
            raise GoldenCasesError(f"{path}: no such file or folder")
        if path.is_dir() and not (path / "saved_model.pb").is_file():
            found = [file.parent for file in path.glob("*/saved_model.pb")]
            versions = {int(folder.name): folder for folder in found if folder.name.isdecimal()}
            return versions[max(versions)] if versions else path
    except OSError as error:
        raise GoldenCasesError(f"{path} cannot be read: {error.strerror}") from error
    return path


def hash_files(path: pathlib.Path) -> dict[str, str]:
    """Hash the files of an artifact that determine its outputs.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file. Golden cases at the end of a TFLite
            file are not hashed.

    Returns:
        SHA-256 hashes, by the name of each file in a SavedModel's folder; for a file by "".
    """
    if path.is_dir():
        return {
            file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(path.rglob("*"))
            if file.is_file() and file.relative_to(path).parts[0] in HASHED
        }
    return {"": hashlib.sha256(read_without_golden_cases(path)).hexdigest()}


def read_without_golden_cases(path: pathlib.Path) -> bytes:
    """Return the content of a TFLite or ONNX file, without golden cases at its end.

    Args:
        path: a TFLite or ONNX file.
    """
    return path.read_bytes()[: _archive_offset(path)]


def require_file(path: pathlib.Path) -> None:
    """Raise OSError for a path that is not a readable file.

    Args:
        path: any path.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder.")
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file.")
        if not path.is_file():
            raise OSError(f"{path} is not a file.")
        with path.open("rb"):
            pass
    except OSError as error:
        if error.strerror is None:  # the error was raised above, with a complete message
            raise
        raise type(error)(f"{path} cannot be read: {error.strerror}.") from error


def require_arrays(path: pathlib.Path) -> None:
    """Raise OSError or ValueError for a path that is not an .npz or .npy file.

    Args:
        path: any path.
    """
    try:
        require_file(path)
    except IsADirectoryError as error:
        raise IsADirectoryError(f"{error} Give the .npz or .npy files of the folder.") from error
    with path.open("rb") as file:
        begin = file.read(len(NPY_BYTES))
    if not begin.startswith((*NPZ_BYTES, NPY_BYTES)):
        raise ValueError(
            f"{path} is not an .npz or .npy file. Write one with "
            "numpy.savez(file, input_name=array)."
        )


def require_literal(path: pathlib.Path) -> pathlib.Path:
    """Return a SavedModel's path; raise ValueError if TensorFlow reads the path as a pattern.

    Args:
        path: a SavedModel's folder, which need not exist.

    Raises:
        ValueError: the path contains a character of `PATTERN`.
    """
    if found := sorted(PATTERN & set(str(path))):
        raise ValueError(
            f"TensorFlow reads {' '.join(found)} in the path of a SavedModel as a pattern, and may "
            f"not find its weights; received {path}. Choose another path"
        )
    return path


def _archive_offset(path: pathlib.Path) -> int | None:
    """Return the byte offset of the golden cases in a TFLite file; None if it contains none."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            archive.getinfo(FILE_NAME)
            return min(entry.header_offset for entry in archive.infolist())
    # The last bytes of a model may look like a zip archive. The zip parser may then raise any
    # exception.
    except Exception:
        return None


def _unpack_inside(path: pathlib.Path) -> bytes:
    """Unpack the golden cases at the end of a TFLite file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return unpack_entry(archive, archive.getinfo(FILE_NAME))
    except GoldenCasesError:
        raise
    # The parser of a damaged archive may raise any exception.
    except Exception as error:
        raise damaged(printable_error(error)) from error


def open_artifact(path: pathlib.Path) -> RunSignature:
    """Load an artifact in its runtime.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.

    Returns:
        A function from a signature's name and its inputs to its outputs.

    Raises:
        GoldenCasesError: the runtime is not installed, or a SavedModel may access files, the Python
            process or other machines.
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
    from tensorflow.core.protobuf import saved_model_pb2

    if not (path / "saved_model.pb").is_file():
        raise GoldenCasesError(
            f"{path} is not a SavedModel: it has neither saved_model.pb nor numbered versions"
        )
    try:
        require_literal(path)
    except ValueError as error:
        raise GoldenCasesError(str(error)) from error
    saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    for graph in saved.meta_graphs:
        if ops := find_unsafe_ops(graph):
            raise GoldenCasesError(
                f"{path} may access files, the Python process or other machines, so it is not run: "
                f"{describe_unsafe_ops(ops)}"
            )
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
