"""Worker: run a SavedModel and give every tensor of its graph that is computed outside loops."""

import sys

for name in ("keras", "keras_norm", "tf_keras"):
    sys.modules[name] = None  # type: ignore[assignment]  # any import of it fails

import pathlib  # noqa: E402
import tempfile  # noqa: E402
from typing import Any  # noqa: E402

import protocol  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402
from tensorflow.python.framework.convert_to_constants import (  # noqa: E402
    convert_variables_to_constants_v2,
)


def load(request: dict[str, Any]) -> tuple[dict[str, Any], protocol.Run]:
    """Load `request["path"]`, and return a function that gives all tensors by name."""
    with tempfile.TemporaryDirectory() as folder:
        copy_without_assignments(pathlib.Path(request["path"]), pathlib.Path(folder))
        model = tf.saved_model.load(folder, tags=["serve"])
    signature = model.signatures[request["signature"]]
    # The functions that a signature calls are written out in its frozen graph; loops are not.
    frozen = convert_variables_to_constants_v2(signature, lower_control_flow=False)
    computed = [
        tensor
        for operation in frozen.graph.get_operations()
        if operation.type not in ("Const", "Placeholder")
        for tensor in operation.outputs
        if tensor.dtype.is_floating
    ]
    everything = frozen.prune(frozen.inputs, computed)
    names = sorted(signature.structured_input_signature[1])

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        fed = zip(names, frozen.inputs, strict=True)
        values = everything(*(tf.cast(arrays[name], tensor.dtype) for name, tensor in fed))
        return {tensor.name: value.numpy() for tensor, value in zip(computed, values, strict=True)}

    return {}, run


def copy_without_assignments(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Copy a SavedModel without what assigns to its variables, which cannot become constants."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((path / "saved_model.pb").read_bytes())
    for graph in saved.meta_graphs:
        for function in graph.graph_def.library.function:
            gone = {
                node.name
                for node in function.node_def
                if node.op.startswith("Assign") and node.op.endswith("VariableOp")
            }
            kept = [node for node in function.node_def if node.name not in gone]
            for node in kept:
                inputs = [name for name in node.input if name.removeprefix("^") not in gone]
                node.ClearField("input")
                node.input.extend(inputs)
            nodes = [type(node).FromString(node.SerializeToString()) for node in kept]
            function.ClearField("node_def")
            function.node_def.extend(nodes)
            for key in [key for key, node in function.control_ret.items() if node in gone]:
                del function.control_ret[key]
                function.signature.control_output.remove(key)
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    for part in ("variables", "assets"):
        if (path / part).is_dir():
            (folder / part).symlink_to((path / part).resolve())


if __name__ == "__main__":
    protocol.serve(load)
