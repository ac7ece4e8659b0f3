"""Find a SavedModel, and run it if its operations are safe."""

import os
import pathlib

from keras_norm_verify.golden_cases import GoldenCasesError, RunSignature
from keras_norm_verify.run_over_time import Arrays
from keras_norm_verify.unsafe_ops import describe_unsafe_ops, find_unsafe_ops

# Files and folders of a SavedModel whose content is hashed. Other programs may add further files.
HASHED = ("saved_model.pb", "fingerprint.pb", "variables", "assets")
# Characters in a path that TensorFlow's loader reads as a pattern of file names.
PATTERN = frozenset("*?[\\") if os.sep == "/" else frozenset("*?[")


def require_literal(path: pathlib.Path) -> pathlib.Path:
    """Return a SavedModel's path; raise ValueError if TensorFlow reads the path as a pattern.

    Args:
        path: a SavedModel's folder, which need not exist.

    Raises:
        GoldenCasesError: the path contains a character of `PATTERN`.
    """
    if found := sorted(PATTERN & set(str(path))):
        raise GoldenCasesError(
            f"TensorFlow reads {' '.join(found)} in the path of a SavedModel as a pattern, so it "
            f"may not find the weights; received {path}. Choose another path"
        )
    return path


def saved_model_folder(path: pathlib.Path) -> pathlib.Path:
    """Find the SavedModel at a path: the folder itself, or the highest version in the folder.

    Args:
        path: a SavedModel's folder, or a folder of numbered versions.

    Raises:
        GoldenCasesError: the folder is not a SavedModel and has no versions, or as
            `require_literal`.
    """
    require_literal(path)
    if (path / "saved_model.pb").is_file():
        return path
    found = [file.parent for file in path.glob("*/saved_model.pb")]
    versions = {int(folder.name): folder for folder in found if folder.name.isdecimal()}
    if not versions:
        raise GoldenCasesError(
            f"{path} is not a SavedModel: it has neither saved_model.pb nor numbered versions. "
            "Give the folder that the exporter wrote"
        )
    return versions[max(versions)]


def load_saved_model(path: pathlib.Path) -> RunSignature:
    """Load a SavedModel in TensorFlow, if its operations access nothing outside its folder.

    Args:
        path: the SavedModel's folder.

    Returns:
        A function from a signature's name and its inputs to its outputs.

    Raises:
        GoldenCasesError: the SavedModel may access files, the Python process or other machines.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    for graph in saved.meta_graphs:
        if ops := find_unsafe_ops(graph):
            raise GoldenCasesError(f"{path} is not run, because {describe_unsafe_ops(ops)}")
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
