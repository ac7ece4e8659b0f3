"""What is expected of every private name of Keras' and TensorFlow's, and that there are no more."""

import ast
import importlib
import inspect
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm import keras_internals
from keras_norm.rnn.sequence import NormRNN

ROOT = pathlib.Path(__file__).parents[1]
SOURCES = [
    *(
        p
        for folder in ("keras_norm", "export", "examples", "experiments")
        for p in (ROOT / folder).rglob("*.py")
    ),
    ROOT / "keras_norm_cli.py",
]
PRIVATE_PACKAGES = ("tensorflow.python", "tensorflow.compiler", "keras.src")
# Of Python's own.
PUBLIC = {"_replace", "_exit", "_thread"}


def private_names(path):
    """Private names of other objects than the class's own, and modules, that a file uses."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("attr"):
            yield from (a.value for a in node.args[1:2] if isinstance(a, ast.Constant))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def is_private(name):
    return name.startswith(PRIVATE_PACKAGES) or (
        name[0] == "_" and name[:2] != "__" and name not in PUBLIC
    )


def layers_of_ours():
    """All classes of the package that have a base of Keras'."""
    pending, found = [keras.layers.Layer], set()
    while pending:
        new = set(pending.pop().__subclasses__()) - found
        found |= new
        pending += new
    return [cls for cls in found if cls.__module__.startswith("keras_norm.")]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_private_names_stand_in_one_module(path):
    found = {name for name in private_names(path) if is_private(name)}
    script = f"{path.parent.name}/{path.name}"
    if script in keras_internals.WORKERS:
        assert found == {keras_internals.WORKERS[script][0]}
    else:
        assert not found or path == pathlib.Path(keras_internals.__file__)


def test_private_names_are_seen_where_they_are():
    found = set(private_names(pathlib.Path(keras_internals.__file__)))
    assert found >= {"_inbound_nodes", "_functional", "tensorflow.python.ops.control_flow_util"}


def test_no_class_of_ours_overrides_or_reads_another_private_name():
    for cls in layers_of_ours():
        bases = [base for base in cls.__mro__ if not base.__module__.startswith("keras_norm.")]
        theirs = {name for base in bases for name in vars(base) if name[0] == "_"}
        theirs |= set(vars(keras.layers.RNN(keras.layers.LSTMCell(2))))
        nodes = ast.walk(ast.parse(inspect.getsource(inspect.getmodule(cls))))
        read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        used = {name for name in theirs & (read | set(vars(cls))) if is_private(name)}
        assert used <= {*keras_internals.OVERRIDDEN}, cls


@pytest.mark.parametrize("name", keras_internals.OVERRIDDEN)
def test_keras_has_and_calls_what_is_overridden(name, monkeypatch):
    expected = keras_internals.OVERRIDDEN[name]
    method = getattr(keras.layers.RNN, name)
    assert list(inspect.signature(method).parameters) == ["self", *expected]
    called = []

    def recorded(self, *args, **kwargs):
        called.append(inspect.signature(method).bind(self, *args, **kwargs).arguments)
        return method(self, *args, **kwargs)

    monkeypatch.setattr(keras.layers.RNN, name, recorded)
    keras.layers.RNN(keras.layers.LSTMCell(2))(np.zeros((3, 4, 5)))
    assert [list(arguments) for arguments in called] == [["self", *expected]]
    assert name in vars(NormRNN)


def test_keras_takes_outputs_and_states_from_the_inner_loop():
    class Loop(keras.layers.RNN):
        def inner_loop(self, sequences, initial_state, mask, training=False):
            return sequences[:, -1], sequences, [sequences[:, 0]]

    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    cell = keras.layers.SimpleRNNCell(3)
    last, state = Loop(cell, return_state=True)(x)
    np.testing.assert_array_equal(last, x[:, -1])
    np.testing.assert_array_equal(state, x[:, 0])
    np.testing.assert_array_equal(Loop(cell, return_sequences=True)(x), x)


@pytest.mark.parametrize("worker", keras_internals.WORKERS)
def test_tensorflow_has_what_workers_take(worker):
    module, name = keras_internals.WORKERS[worker]
    function = getattr(importlib.import_module(module), name)
    assert {"func", "lower_control_flow"} <= set(inspect.signature(function).parameters)
    assert name in (ROOT / "export" / "formats" / worker).read_text()


@keras.saving.register_keras_serializable("keras_norm_tests")
class _Refusing(keras.layers.Layer):
    """Refuses what it is given, built of `refused` or called."""

    def __init__(self, refused=False, **options):
        super().__init__(**options)
        if refused:
            raise ValueError("no such\nlayer")

    def call(self, x):
        raise ValueError("no such\ncall")


def _raised(error, function):
    with pytest.raises(error) as raised:
        function()
    return raised.value


def test_the_reason_of_an_error_is_what_the_layer_raised():
    called = _raised(ValueError, lambda: _Refusing()(np.ones((1, 2))))
    traced = _raised(ValueError, lambda: _Refusing()(keras.Input((2,))))
    config = keras.saving.serialize_keras_object(_Refusing())
    config["config"]["refused"] = True
    made = _raised(TypeError, lambda: keras.saving.deserialize_keras_object(config))
    assert keras_internals.reason(called) == keras_internals.reason(traced) == "no such\ncall"
    assert keras_internals.reason(made) == "no such\nlayer"


def test_sublayers_are_those_of_wrappers_and_cells_one_level_down():
    layer = keras.layers.Bidirectional(keras_norm.LayerNormGRU(2, name="gru"))
    layer.build((None, 4, 3))
    forward, backward = keras_internals.sublayers(layer)
    assert (forward, backward) == (layer.forward_layer, layer.backward_layer)
    assert keras_internals.sublayers(forward) == [forward.cell]
    assert set(keras_internals.sublayers(forward.cell)) == {*forward.cell.slot_layers().values()}


def test_nodes_know_every_call():
    shared = keras.layers.Dense(3)
    x = keras.Input((3,))
    mask = keras.Input((3,))
    first = shared(x)
    second = shared(first)
    scores = keras.layers.Softmax()(second, mask=mask)
    assert [n.input_tensors for n in keras_internals.nodes_of(shared)] == [[x], [first]]
    node = keras_internals.node_before(second)
    assert (node.operation, node.input_tensors, node.is_input) == (shared, [first], False)
    assert keras_internals.node_before(x).is_input
    assert keras_internals.node_before(scores).arguments.kwargs["mask"] is mask
    model = keras.Model([x, mask], scores)
    calls = [n.operation for n in keras_internals.nodes_in_order(model)]
    assert calls[:2] == [shared, shared]
    assert len(calls) == 3


def test_a_sequential_model_has_nodes_too():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.ReLU()])
    assert [n.operation for n in keras_internals.nodes_in_order(model)] == model.layers


def test_rows_are_written_into_an_array():
    update = tf.function(keras_internals.dynamic_update_slice)
    graph = update.get_concrete_function(tf.zeros([4, 2]), tf.ones([1, 2]), tf.constant([2, 0]))
    assert "XlaDynamicUpdateSlice" in {op.type for op in graph.graph.get_operations()}
    written = graph(tf.zeros([4, 2]), tf.ones([1, 2]), tf.constant([2, 0]))
    np.testing.assert_array_equal(written[:, 0], [0, 0, 1, 0])


@pytest.mark.parametrize("compiled", [False, True])
def test_xla_is_seen_where_it_compiles(compiled):
    seen = []

    @tf.function(jit_compile=compiled, autograph=False)
    def function(x):
        seen.append(keras_internals.xla_compiles())
        return tf.cond(x > 0, lambda: seen.append(keras_internals.xla_compiles()) or x, lambda: -x)

    function(tf.constant(1.0))
    assert set(seen) == {compiled}


def test_it_is_seen_whether_operations_are_watched():
    assert not keras_internals.operations_are_watched()
    tf.debugging.enable_check_numerics()
    try:
        assert keras_internals.operations_are_watched()
    finally:
        tf.debugging.disable_check_numerics()
    assert not keras_internals.operations_are_watched()


@pytest.mark.parametrize(
    ("op", "has"),
    [("MatMul", True), ("StatefulPartitionedCall", True), ("CudnnRNNV3", False), ("Mine", False)],
)
def test_operations_that_a_cpu_has_are_known(op, has):
    assert keras_internals.has_cpu_kernel(op) == has


def test_operations_without_a_kernel_that_are_replaced():
    added = tf.function(lambda x: tf.raw_ops.AccumulateNV2(inputs=[x, x], shape=[2]))
    np.testing.assert_array_equal(added(tf.ones([2])), [2, 2])
    assert {"AccumulateNV2"} == keras_internals.REWRITTEN


def test_the_reason_of_an_error_in_a_graph_is_what_the_operation_said():
    calls = "Graph execution error:\n\nDetected at node x defined at (most recent call last):\n"
    lost = calls + "<stack traces unavailable>\nno such id\n\t [[{{node x}}]]"
    told = calls + '  File "a.py", line 1, in f\n\nno such id\n\t [[{{node x}}]]'
    wrapped = f"Exception encountered when calling L.call().\n\n\x1b[1m{told}\x1b[0m\n\nArguments:"
    for text in (lost, told, wrapped):
        assert keras_internals.reason(ValueError(text)).splitlines()[0] == "no such id"
