"""The private names of Keras and TensorFlow behave as expected, and only one module uses them."""

import ast
import importlib
import inspect
import pathlib
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from keras_norm import keras_internals
from keras_norm.rnn.norm_rnn import NormRNN

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = ("keras_norm", "keras_norm_cli", "export", "examples", "experiments")
SOURCES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
PRIVATE_PACKAGES = ("tensorflow.python", "tensorflow.compiler", "keras.src")
# Names of Python's standard library.
PUBLIC = {"_asdict", "_replace", "_exit", "_thread"}


def private_names(path):
    """List the attributes of other objects, and the modules, that a file uses."""
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


def package_layers():
    """List all classes of the package that are Keras layers."""
    pending, found = [keras.layers.Layer], set()
    while pending:
        new = set(pending.pop().__subclasses__()) - found
        found |= new
        pending += new
    modules = {name for name in sys.modules if name.startswith("keras_norm.")}
    return [cls for cls in found if cls.__module__ in modules]


def test_only_keras_internals_uses_private_names():
    found = {
        f"{path.parent.name}/{path.name}": names
        for path in SOURCES
        if path != pathlib.Path(keras_internals.__file__)
        if (names := {name for name in private_names(path) if is_private(name)})
    }
    assert found == {script: {module} for script, (module, _) in keras_internals.WORKERS.items()}
    found = set(private_names(pathlib.Path(keras_internals.__file__)))
    assert found >= {"_inbound_nodes", "_functional", "tensorflow.python.ops.control_flow_util"}


def test_layers_override_and_read_only_the_listed_private_names():
    for cls in package_layers():
        bases = [base for base in cls.__mro__ if not base.__module__.startswith("keras_norm.")]
        theirs = {name for base in bases for name in vars(base) if name[0] == "_"}
        theirs |= set(vars(keras.layers.RNN(keras.layers.LSTMCell(2))))
        nodes = ast.walk(ast.parse(inspect.getsource(inspect.getmodule(cls))))
        read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        used = {name for name in theirs & (read | set(vars(cls))) if is_private(name)}
        assert used <= {*keras_internals.OVERRIDDEN}, cls


@pytest.mark.parametrize("name", keras_internals.OVERRIDDEN)
def test_keras_calls_the_overridden_methods_with_the_listed_arguments(name, monkeypatch):
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


@pytest.mark.parametrize("worker", keras_internals.WORKERS)
def test_tensorflow_has_the_private_functions_that_workers_use(worker):
    module, name = keras_internals.WORKERS[worker]
    function = getattr(importlib.import_module(module), name)
    assert {"func", "lower_control_flow"} <= set(inspect.signature(function).parameters)
    assert name in (ROOT / "export" / "formats" / worker).read_text()


@keras.saving.register_keras_serializable("keras_norm_tests")
class _Refusing(keras.layers.Layer):
    """Raises an error in its call, and with `refused` in its constructor."""

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


def test_the_reason_of_an_error_is_the_message_of_the_layer():
    called = _raised(ValueError, lambda: _Refusing()(np.ones((1, 2))))
    traced = _raised(ValueError, lambda: _Refusing()(keras.Input((2,))))
    config = keras.saving.serialize_keras_object(_Refusing())
    config["config"]["refused"] = True
    made = _raised(TypeError, lambda: keras.saving.deserialize_keras_object(config))
    assert keras_internals.reason(called) == keras_internals.reason(traced) == "no such\ncall"
    assert keras_internals.reason(made) == "no such\nlayer"


def test_called_layers_are_those_whose_calls_have_not_ended():
    found = []

    class Inner(keras.layers.Layer):
        def call(self, inputs):
            found.extend(keras_internals.called_layers())
            return inputs

    inner = Inner()
    model = keras.Sequential([inner])
    model(np.ones((1, 2)))
    assert found[0] is model
    assert found[-1] is inner
    assert not keras_internals.called_layers()


def test_release_gradients_does_not_release_the_gradients_of_a_user():
    @tf.custom_gradient
    def reverse(x):
        return x, lambda dy: -dy

    @tf.function
    def function(x):
        return reverse(x)

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        with tf.Graph().as_default():
            keras_internals.release_gradients()
    registered = tf_ops.gradient_registry
    own = [n for n in registered.list() if n.startswith("CustomGradient-")]
    assert any(inspect.isfunction(registered.lookup(name)) for name in own)
    assert tape.gradient(y, x) == -1


def test_tensorflow_replaces_the_operations_without_a_kernel():
    added = tf.function(lambda x: tf.raw_ops.AccumulateNV2(inputs=[x, x], shape=[2]))
    np.testing.assert_array_equal(added(tf.ones([2])), [2, 2])
    assert {"AccumulateNV2"} == keras_internals.REWRITTEN


def test_the_reason_of_an_error_in_a_graph_is_the_message_of_the_operation():
    calls = "Graph execution error:\n\nDetected at node x defined at (most recent call last):\n"
    without_trace = calls + "<stack traces unavailable>\nno such id\n\t [[{{node x}}]]"
    trace = calls + '  File "a.py", line 1, in f\n\nno such id\n\t [[{{node x}}]]'
    wrapped = f"Exception encountered when calling L.call().\n\n\x1b[1m{trace}\x1b[0m\n\nArguments:"
    for text in (without_trace, trace, wrapped):
        assert keras_internals.reason(ValueError(text)).splitlines()[0] == "no such id"


def test_one_warning_names_the_untested_versions_and_the_newest_tested(monkeypatch):
    monkeypatch.setattr(keras, "__version__", "3.99.0.dev2026")
    monkeypatch.setattr(tf, "__version__", "2.99.0rc0")
    with pytest.warns(UserWarning, match="last tested") as caught:
        keras_internals.warn_of_untested_versions()
    (warning,) = caught
    tested = keras_internals.TESTED
    newest = " and ".join(f"{name} {'.'.join(map(str, v))}" for name, v in tested.items())
    assert str(warning.message).startswith(
        f"keras_norm was last tested with {newest}. "
        "Received keras 3.99.0.dev2026 and tensorflow 2.99.0rc0."
    )


@pytest.mark.filterwarnings("error")
def test_a_later_patch_gives_no_warning(monkeypatch):
    monkeypatch.setattr(keras, "__version__", "3.15.99")
    monkeypatch.setattr(tf, "__version__", "2.18.1")
    keras_internals.warn_of_untested_versions()
