"""Worker script: run a SavedModel in a TensorFlow that has neither Keras nor this package."""

# ruff: noqa: E402

import hashlib
import sys

# Make every import of Keras and of keras_norm fail, because a SavedModel must run without them.
for name in ("keras", "keras_norm", "tf_keras"):
    sys.modules[name] = None  # type: ignore[assignment]

import pathlib
import tempfile

import tensorflow as tf
import worker_protocol as protocol
from tensorflow.core.protobuf import saved_model_pb2


def load(options: protocol.Options) -> protocol.Loaded:
    """Load the SavedModel `options["path"]`, to run its signature `options["signature"]`.

    With `options["every_tensor"]` the outputs are all tensors computed outside loops, by name.
    """
    if options.get("every_tensor"):
        return protocol.Loaded(
            {}, load_every_tensor(pathlib.Path(options["path"]), options["signature"])
        )
    model = tf.saved_model.load(options["path"], tags=["serve"])
    function = model.signatures[options["signature"]]
    specs = function.structured_input_signature[1]

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        # Keep a reference to `model`, because the model owns the variables that `function` reads.
        assert model is not None
        outputs = function(**{n: tf.cast(a, specs[n].dtype) for n, a in arrays.items()})
        return {name: tensor.numpy() for name, tensor in outputs.items()}

    def variable_digests() -> dict[str, str]:
        return {
            f"{i}: {variable.name}": hashlib.sha256(variable.numpy().tobytes()).hexdigest()
            for i, variable in enumerate(function.variables)
        }

    return protocol.Loaded({}, run, variable_digests)


def load_every_tensor(path: pathlib.Path, name: str) -> protocol.Run:
    """Load a signature as a function; it returns all float tensors computed outside loops."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    with tempfile.TemporaryDirectory() as folder:
        copy_without_assignments(path, pathlib.Path(folder))
        model = tf.saved_model.load(folder, tags=["serve"])
    signature = model.signatures[name]
    # The frozen graph contains the operations of each function that the signature calls. So the
    # tensors of these functions can be outputs. The tensors in the bodies of loops cannot.
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
    # The inputs of the frozen graph are the inputs of the model, then the lookup tables. The
    # variables are constants of the frozen graph.
    captured = zip(signature.graph.internal_captures, signature.captured_inputs, strict=True)
    handles = {placeholder.name: handle for placeholder, handle in captured}
    tables = [handles[tensor.name] for tensor in frozen.inputs[len(names) :]]

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        # Keep a reference to `model`, because the model owns the lookup tables.
        assert model is not None
        fed = zip(names, frozen.inputs, strict=False)
        inputs = [tf.cast(arrays[name], tensor.dtype) for name, tensor in fed]
        values = everything(*inputs, *tables)
        return {tensor.name: value.numpy() for tensor, value in zip(computed, values, strict=True)}

    return run


def copy_without_assignments(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Copy a SavedModel without operations that assign a variable.

    TensorFlow can make a variable a constant only if no operation assigns it.
    """
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((path / "saved_model.pb").read_bytes())
    for graph in saved.meta_graphs:
        for function in graph.graph_def.library.function:
            removed = {
                node.name
                for node in function.node_def
                if node.op.startswith("Assign") and node.op.endswith("VariableOp")
            }
            others = [node for node in function.node_def if node.name not in removed]
            for node in others:
                inputs = [name for name in node.input if name.removeprefix("^") not in removed]
                node.ClearField("input")
                node.input.extend(inputs)
            nodes = [type(node).FromString(node.SerializeToString()) for node in others]
            function.ClearField("node_def")
            function.node_def.extend(nodes)
            for key in [key for key, node in function.control_ret.items() if node in removed]:
                del function.control_ret[key]
                function.signature.control_output.remove(key)
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    for part in ("variables", "assets"):
        if (path / part).is_dir():
            (folder / part).symlink_to((path / part).resolve())


if __name__ == "__main__":
    protocol.serve(load)
