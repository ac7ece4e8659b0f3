"""All private names of Keras and TensorFlow that the package uses, each with a test.

`tensorflow.core`, the format of SavedModels, is public.
"""

import inspect
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import keras

from keras_norm.typing import Tensor

# Keras puts a header and a footer around the message of an error that it wraps. TensorFlow puts a
# stack trace before the message of an error in a graph.
HEADER = re.compile(
    r"\x1b\[1m|(?:Exception|Error) encountered:|Graph execution error:[^\x1b]*\n\n(?=\S)"
    r"|Detected at node [^\n]*\n(?:<stack [^\n]*\n)?"
)
FOOTER = "\x1b[0m"

# Methods of keras.layers.RNN that this package overrides, with the arguments that Keras passes.
OVERRIDDEN = {
    "inner_loop": ["sequences", "initial_state", "mask", "training"],
    "_maybe_config_dropout_masks": ["cell", "input_sequence", "input_state"],
}

# Method of a functional model that rejects inputs whose shape differs from the static shape.
SHAPE_CHECK = "_assert_input_compatibility"

# Script that `export.formats` runs in a new process -> (module, name) of the private TensorFlow
# function that the script calls. A script cannot import this dict, so a test checks that the script
# contains the name.
WORKERS = dict.fromkeys(
    ("onnx/convert_onnx.py", "saved_model/run_saved_model.py"),
    (
        "tensorflow.python.framework.convert_to_constants",
        "convert_variables_to_constants_v2",
    ),
)

# Modules with the custom gradients that `release_gradients` frees. TensorFlow's distribute_lib has
# the custom gradient of `all_reduce`. Every optimizer of Keras calls `all_reduce`.
RELEASED = ("keras_norm.", "tensorflow.python.distribute.distribute_lib")

# TensorFlow replaces these operations by others before it runs a graph, so they need no kernel.
REWRITTEN = {"AccumulateNV2"}


# The newest versions of Keras and TensorFlow that the tests run with, as in pyproject.toml.
TESTED = {"keras": (3, 15), "tensorflow": (2, 21)}


class CallArguments(Protocol):
    """Positional arguments and keyword arguments of a symbolic layer call."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object]


class Node(Protocol):
    """A symbolic call of a layer or operation in a functional model."""

    operation: keras.Operation
    arguments: CallArguments
    input_tensors: list[Tensor]
    outputs: list[Tensor]
    is_input: bool


def warn_of_untested_versions() -> None:
    """Warn if the installed Keras or TensorFlow is newer than every version in the tests."""
    newer = []
    for name, tested in TESTED.items():
        # Do not import TensorFlow here: other backends need it only for an export.
        installed = getattr(sys.modules.get(name), "__version__", "")
        numbers = re.match(r"(\d+)\.(\d+)", installed)
        if numbers and tuple(map(int, numbers.groups())) > tested:
            newer.append((f"{name} {installed}", f"{name} {tested[0]}.{tested[1]}"))
    if newer:
        found, newest = (" and ".join(column) for column in zip(*newer, strict=True))
        warnings.warn(
            f"keras_norm was last tested with {newest}. Received {found}. If something fails, "
            f"update keras_norm, or install {newest}.",
            stacklevel=3,
        )


def reason(error: BaseException) -> str:
    """Return an error's message without the text that Keras and TensorFlow add around it."""
    message = HEADER.split(str(error))[-1]
    return message.partition(FOOTER)[0].strip()


def sublayers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """List the direct sublayers of a layer."""
    # `Model.layers` is public, but it lacks the layers inside wrappers and cells.
    found: list[keras.layers.Layer] = layer._flatten_layers(include_self=False, recursive=False)
    return found


def nodes_of(layer: keras.layers.Layer) -> list[Node]:
    """List the symbolic calls of a layer in all models that contain the layer."""
    nodes: list[Node] = layer._inbound_nodes
    return nodes


def receives_mask(layer: keras.layers.Layer) -> bool | None:
    """Return whether a symbolic call of a layer has masked inputs.

    Returns:
        None if the layer has no symbolic call: it is inside a wrapper, a cell or a custom layer.
    """
    tensors = [tensor for node in nodes_of(layer) for tensor in node.input_tensors]
    masks = [getattr(tensor, "_keras_mask", None) for tensor in tensors]
    return any(mask is not None for mask in masks) if masks else None


def nodes_in_order(model: keras.Model) -> list[Node]:
    """List the layer calls of a functional or Sequential model in topological order."""
    # A Sequential model has its graph in a functional model, the attribute `_functional`.
    graph = getattr(model, "_functional", model)
    by_depth = sorted(graph._nodes_by_depth.items(), reverse=True)
    return [node for _, nodes in by_depth for node in nodes if not node.is_input]


def mask_of(tensor: Tensor) -> Tensor | None:
    """Return the mask that Keras attached to a tensor, or None."""
    masking: Any = sys.modules["keras.src.backend.common.masking"]
    return masking.get_keras_mask(tensor)


def called_layers() -> list[object]:
    """List the layers that are being called, from the outermost to the innermost.

    A layer whose `call` another layer calls directly is not in the list.
    """
    # Each call of a layer opens a name scope. The name scope stores the layer as `caller`.
    global_state: Any = sys.modules["keras.src.backend.common.global_state"]
    scopes = global_state.get_global_attribute("name_scope_stack") or []
    return [scope.caller for scope in scopes]


def stored_sublayers(store: Mapping[str, Any]) -> set[str] | None:
    """Return the names under which a file of weights stores the sublayers of a layer.

    Args:
        store: the argument of `load_own_variables`.

    Returns:
        Names of attributes, such as "kernel_norm". None if they are not known: weights are stored
        in several files, or the layer itself has no weights in the file.
    """
    # For weights in several files, Keras passes a ShardedH5IOStore, a subclass of H5IOStore.
    is_one_file = type(store).__name__ == "H5IOStore"
    group: Any = getattr(store, "_h5_entry_group", None) if is_one_file else None
    return {*group.parent} - {"vars"} if hasattr(group, "parent") else None


def dynamic_update_slice(array: Tensor, rows: Tensor, start: Tensor) -> Tensor:
    """Overwrite a slice of an array with an operation that TFLite's converter supports.

    Args:
        array: tensor to copy.
        rows: new values of the slice, a tensor with the rank of `array`.
        start: index of the slice's first element, int (rank,).
    """
    from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice

    return dynamic_update_slice(array, rows, start)


def xla_compiles() -> bool:
    """Return whether XLA compiles the TensorFlow graph that is being traced."""
    import tensorflow as tf
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

    return bool(GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def computes_on_cpu() -> bool:
    """Return whether TensorFlow computes on a CPU.

    On a CPU matrix products keep all digits of float32.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.config.list_logical_devices("GPU")


def operations_are_watched() -> bool:
    """Return whether a debugging tool such as check_numerics watches all TensorFlow operations.

    Such a tool adds operations to a graph that XLA cannot compile.
    """
    from tensorflow.python.eager import context

    return bool(context.context().op_callbacks)


def is_graph_of_replica() -> bool:
    """Return whether the current graph is the graph of a replica (a copy of the model on one GPU).

    MirroredStrategy can run `all_reduce` in this graph only. It cannot run `all_reduce` in the
    inner graph of a loop, a conditional or a nested function.
    """
    import tensorflow as tf

    # MirroredStrategy runs each replica's function in a thread, which stores the graph.
    graph = getattr(threading.current_thread(), "graph", None)
    return graph is None or graph is tf.compat.v1.get_default_graph()


def has_cpu_kernel(op: str) -> bool:
    """Return whether TensorFlow has a CPU kernel for an operation."""
    from tensorflow.python.framework import kernels

    devices = {kernel.device_type for kernel in kernels.get_registered_kernels_for_op(op).kernel}
    return op in REWRITTEN or not devices.isdisjoint({"CPU", "DEFAULT"})


def release_gradients() -> None:
    """Let garbage collection free the graphs that have a custom gradient.

    In a graph, every call of `tf.custom_gradient` registers a function under a new name, and the
    registry keeps it forever. The function refers to tensors of the graph, so no training step of a
    Keras model would ever be freed. Here the graph becomes the owner of the function, and the
    registry keeps a weak reference. Eager calls register nothing, so in an eager call this function
    returns at once.
    """
    import tensorflow as tf
    from tensorflow.python.framework.ops import gradient_registry

    if tf.executing_eagerly():
        return

    for name, entry in list(gradient_registry._registry.items()):
        function = entry["type"]
        if isinstance(function, _WeakGradient):
            if function.reference() is None:
                del gradient_registry._registry[name]
        elif name.startswith("CustomGradient-") and (graph := _graph_of_gradient(function)):
            graph.custom_gradients = [*getattr(graph, "custom_gradients", []), function]
            entry["type"] = _WeakGradient(function)


class _WeakGradient:
    """A gradient function, stored by a weak reference, so that its graph can be freed."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self.reference = weakref.ref(function)

    def __call__(self, op: object, *gradients: Tensor) -> Tensor:
        function = self.reference()
        if function is None:
            raise RuntimeError("The graph with this custom gradient no longer exists.")
        return function(op, *gradients)


def _graph_of_gradient(function: Callable[..., Tensor]) -> Any:
    """Return the graph of a custom gradient; None unless a module of `RELEASED` defines it."""
    import tensorflow as tf

    of_tape = inspect.getclosurevars(function).nonlocals.get("tape_grad_fn")
    if of_tape is None:
        return None
    variables = inspect.getclosurevars(of_tape).nonlocals
    if not getattr(variables.get("grad_fn"), "__module__", "").startswith(RELEASED):
        return None
    graphs = (getattr(x, "graph", None) for x in tf.nest.flatten(variables.get("result")))
    return next((graph for graph in graphs if graph is not None), None)
