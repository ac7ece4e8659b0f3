"""Find the origins of values in the graph of a SavedModel, and the functions that run."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, TypeAlias

# These operations call a function, named by their attribute `f`, and pass their inputs to it.
CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])

# TensorFlow's protocol buffers MetaGraphDef, TensorInfo, NodeDef and FunctionDef. A Function is the
# function that contains a node, or None for a node of the main graph.
MetaGraph: TypeAlias = Any
TensorInfo: TypeAlias = Any
Node: TypeAlias = Any
Function: TypeAlias = Any
# Key of a function: (name of the function, ""). Key of a node outside functions: ("", its name).
Unit: TypeAlias = tuple[str, str]
# Key of a tensor: the name of its function ("" outside functions), and its own name.
Place: TypeAlias = tuple[str, str]
# Where a value comes from. A str is the name of a node outside functions, or CONSTANT for a
# constant in a function. An int is the index of an object of the SavedModel. None is a value that
# a caller may choose.
Origin: TypeAlias = str | int | None
CONSTANT = "^"  # TensorFlow allows no node with this name.

# Operations with which the saver builds the path of a checkpoint file from other paths.
JOINS = frozenset(
    ["Pack", "Select", "SelectV2", "ShardedFilename", "StaticRegexFullMatch", "StringJoin"]
)


def nodes_with_functions(graph: MetaGraph) -> Iterator[tuple[Function, Node]]:
    """Yield (function, node) for every node; the function is None for a node outside functions.

    Args:
        graph: a graph of a SavedModel.
    """
    yield from ((None, node) for node in graph.graph_def.node)
    for function in graph.graph_def.library.function:
        yield from ((function, node) for node in function.node_def)


def unit_of(function: Function, node: Node) -> Unit:
    """Return the function that contains a node, or the node itself if it is outside functions."""
    return (function.signature.name, "") if function else ("", node.name)


class DataFlow:
    """The calls and the data flow in the graph of a SavedModel, from node to node.

    Args:
        graph: a graph of a SavedModel.
    """

    def __init__(self, graph: MetaGraph) -> None:
        self._graph = graph
        self.functions = {f.signature.name: f for f in graph.graph_def.library.function}
        self._nodes: dict[Place, Node] = {}
        self._needs: dict[Unit, set[Unit]] = {}
        # Function -> its calls: (name of the function that calls it or "", node that calls it).
        self._callers: dict[str, list[tuple[str, Node]]] = {}
        # If two functions or nodes have the same name, a loader may run either.
        self._is_ambiguous = len(self.functions) < len(graph.graph_def.library.function)
        for function, node in nodes_with_functions(graph):
            scope = function.signature.name if function else ""
            self._is_ambiguous |= (scope, node.name) in self._nodes
            self._nodes[scope, node.name] = node
            called = self.functions.keys() & {node.op, *_named_functions(node)}
            for name in called:
                self._callers.setdefault(name, []).append((scope, node))
            needs = self._needs.setdefault(unit_of(function, node), set())
            needs |= {(name, "") for name in called}
            if not scope:
                needs |= {("", node_name(tensor)) for tensor in node.input}
        self._captured = _find_captured(graph)
        signatures = graph.signature_def.values()
        # The caller of a signature chooses the values of the signature's input nodes.
        inputs = (tensor for s in signatures for tensor in s.inputs.values())
        outputs = (tensor for s in signatures for tensor in s.outputs.values())
        self._fed = {node_name(name) for tensor in inputs for name in _tensor_names(tensor)}
        self._run = {("", node_name(name)) for tensor in outputs for name in _tensor_names(tensor)}
        for collection in graph.collection_def.values():  # a loader runs these nodes
            self._run |= {("", node_name(name)) for name in collection.node_list.value}
        self._run |= {(name, "") for name in self._captured}

    def find_units_of(self, tensor: str, other: str) -> set[Unit]:
        """Find the functions and nodes that are run only to compute `tensor`.

        Args:
            tensor: `save_tensor_name` or `restore_op_name` of the saver.
            other: `restore_op_name` or `save_tensor_name`; the name that is not `tensor`.
        """
        if self._is_ambiguous:
            return set()
        own = self._closure({("", node_name(tensor))})
        run = self._run | {("", node_name(other))}
        return own - self._closure(run | (self._needs.keys() - own))

    def find_assets(self) -> set[Origin]:
        """Find the nodes and objects to which a loader assigns the path of an asset file."""
        found: set[Origin] = set()
        for asset in self._graph.asset_file_def:
            node = self._nodes.get(("", node_name(asset.tensor_info.name)))
            if node is not None and node.op == "Placeholder":
                found.add(node.name)
        objects = enumerate(self._graph.object_graph_def.nodes)
        return found | {index for index, o in objects if o.WhichOneof("kind") == "asset"}

    def find_origins(
        self, function: str, tensor: str, through: Collection[str] = ()
    ) -> set[Origin]:
        """Find where a tensor's value comes from, through identities, arguments and variables.

        Args:
            function: name of the function of the tensor; "" for a tensor outside functions.
            tensor: name of the tensor.
            through: operations whose inputs are followed too.
        """
        origins: set[Origin] = {None} if self._is_ambiguous else set()
        visited: set[Place] = set()
        pending = [(function, tensor)]
        while pending:
            if (place := pending.pop()) not in visited:
                visited.add(place)
                is_argument = place[0] and ":" not in place[1]
                before, found = (
                    self._trace_argument(*place) if is_argument else self._trace(*place, through)
                )
                pending += before
                origins |= found
        return origins

    def _trace(
        self, function: str, tensor: str, through: Collection[str]
    ) -> tuple[list[Place], set[Origin]]:
        """Go one operation back: return the tensors that give a tensor's value, or its origin."""
        node = self._nodes.get((function, node_name(tensor)))
        if node is None or (not function and node.name in self._fed):
            return [], {None}
        if node.op == "Identity":
            return [(function, data_input(node, 0))], set()
        if node.op in through:
            return [(function, tensor) for tensor in _data_inputs(node)], set()
        if function:
            return [], {CONSTANT if node.op == "Const" else None}
        if node.op == "ReadVariableOp":
            values = self._find_assigned(node_name(data_input(node, 0)))
            return [("", value) for value in values], set() if values else {None}
        return [], {node.name}

    def _trace_argument(self, function: str, argument: str) -> tuple[list[Place], set[Origin]]:
        """Return the tensors and captured objects that are passed as an argument of a function."""
        names = [entry.name for entry in self.functions[function].signature.input_arg]
        if argument not in names:
            return [], {None}
        index, before, origins = names.index(argument), [], set[Origin]()
        for caller, node in self._callers.get(function, ()):
            called = node.attr["f"].func.name if node.op in CALLS else node.op
            if called == function:
                before.append((caller, data_input(node, index)))
            else:
                origins.add(None)
        if (captured := self._captured.get(function)) is not None:
            # The last arguments are captured objects. A caller passes the arguments before them.
            index -= len(names) - len(captured)
            origins.add(captured[index] if index >= 0 else None)
        return before, origins

    def _find_assigned(self, variable: str) -> list[str]:
        """List all tensors that are assigned to a variable; [] if the list may be incomplete."""
        handle = self._nodes.get(("", variable))
        if handle is None or variable in self._fed or handle.op != "VarHandleOp":
            return []
        handles = [node for node in self._nodes.values() if node.op == "VarHandleOp"]
        if [_resource(node) for node in handles].count(_resource(handle)) > 1:
            return []
        values = []
        for (function, _), node in self._nodes.items():
            if function or variable not in map(node_name, _data_inputs(node)):
                continue
            if node.op == "AssignVariableOp":
                values.append(data_input(node, 1))
            elif node.op not in ("ReadVariableOp", "VarIsInitializedOp"):
                return []
        return values

    def _closure(self, units: Iterable[Unit]) -> set[Unit]:
        """Return the given nodes and functions, and all nodes and functions that they run."""
        found: set[Unit] = set()
        pending = [*units]
        while pending:
            if (unit := pending.pop()) not in found:
                found.add(unit)
                pending += self._needs.get(unit, ())
        return found


def _find_captured(graph: MetaGraph) -> dict[str, list[int]]:
    """Find the functions that a loader can run, and the objects that each function captures."""
    library, objects = graph.graph_def.library, graph.object_graph_def
    found = {name: [*f.bound_inputs] for name, f in objects.concrete_functions.items()}
    names = [name for node in objects.nodes for name in node.function.concrete_functions]
    names += [node.bare_concrete_function.concrete_function_name for node in objects.nodes]
    names += [gradient.gradient_func for gradient in library.gradient]
    names += [gradient.gradient_func for gradient in library.registered_gradients]
    # TensorFlow's optimizer may run a function with the attribute `api_implements` in place of
    # another function with the same value of this attribute.
    names += [f.signature.name for f in library.function if "api_implements" in f.attr]
    return {name: [] for name in names} | found


def node_name(tensor: str) -> str:
    """Return the name of the node of a tensor: "a" for "a:0" and "^a"."""
    return tensor.lstrip("^").partition(":")[0]


def _data_inputs(node: Node) -> list[str]:
    """Return the inputs of a node without its control inputs."""
    return [tensor for tensor in node.input if not tensor.startswith("^")]


def data_input(node: Node, index: int) -> str:
    """Return the name of a node's input number `index`, or "" if a damaged node lacks it."""
    return next(iter(_data_inputs(node)[index : index + 1]), "")


def _resource(handle: Node) -> bytes:
    """Return the `shared_name` of a VarHandleOp: operations with one name share one variable."""
    name = handle.attr.get("shared_name")
    return (name.s if name else b"") or handle.name.encode()


def _tensor_names(tensor: TensorInfo) -> list[str]:
    """Return the names of the tensors of an input or output; a sparse tensor consists of three."""
    sparse = tensor.coo_sparse
    names = [sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name]
    return [tensor.name, *names, *(each.name for each in tensor.composite_tensor.components)]


def _named_functions(node: Node) -> Iterator[str]:
    """Yield the names of the functions in a node's attributes, such as the body of a loop.

    A named function has attributes too, which can name more functions.
    """
    for attribute in node.attr.values():
        for function in (attribute.func, *attribute.list.func):
            yield function.name
            yield from _named_functions(function)
