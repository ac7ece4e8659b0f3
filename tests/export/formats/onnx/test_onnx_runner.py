import numpy as np
import pytest

from keras_norm.export import RunnerError, open_runner
from keras_norm.export.checks.properties.builtin_ops import BuiltInOps
from keras_norm.export.checks.subject import Subject
from keras_norm.export.formats.onnx.onnx_runner import ONNXRunner

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

TYPES = {
    "float16": "FLOAT16",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "int32": "INT32",
    "int64": "INT64",
    "bool": "BOOL",
}


def write(path, nodes, inputs, outputs):
    """Write an ONNX file with inputs and outputs of (name, type, shape)."""
    ends = [
        [
            onnx.helper.make_tensor_value_info(name, getattr(onnx.TensorProto, kind), shape)
            for name, kind, shape in side
        ]
        for side in (inputs, outputs)
    ]
    domains = sorted({"", *(node.domain for node in nodes)})
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "graph", *ends),
        opset_imports=[onnx.helper.make_opsetid(d, 1 if d else 15) for d in domains],
        ir_version=8,
    )
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    """Write a file that returns one input of every dtype."""
    return write(
        tmp_path_factory.mktemp("with a space") / "echo.onnx",
        [onnx.helper.make_node("Identity", [f"{t}_in"], [t]) for t in TYPES],
        [(f"{t}_in", kind, ["batch", 3]) for t, kind in TYPES.items()],
        [(t, kind, ["batch", 3]) for t, kind in TYPES.items()],
    )


@pytest.fixture(scope="module")
def run(echo):
    with open_runner(echo) as runner:
        yield runner


def test_every_dtype_is_accepted_at_any_batch(run):
    assert {spec.shape for spec in run.inputs.values()} == {(None, 3)}
    for batch in (1, 7, 2):
        answer = run({f"{t}_in": np.ones((batch, 3), t) for t in TYPES})
        assert {n: (a.dtype.name, a.shape) for n, a in answer.items()} == {
            t: (t, (batch, 3)) for t in TYPES
        }


def test_neither_tensorflow_nor_keras_is_imported(run):
    assert (
        set(run.worker.call("modules")) & {"tensorflow", "keras", "keras_norm", "tf2onnx"} == set()
    )


def test_an_onnx_file_has_one_signature(echo, run):
    assert run.signatures() == ["serving_default"]
    with pytest.raises(RunnerError, match=r"an ONNX file has the signature serving_default only"):
        ONNXRunner(echo, "step")


def test_operations_of_loop_bodies_are_listed_and_foreign_ones_fail(run, tmp_path):
    standard = run
    branch = onnx.helper.make_graph(
        [onnx.helper.make_node("Gelu", ["x"], ["z"], "odd", domain="com.microsoft")],
        "branch",
        [],
        [onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [2])],
    )
    nodes = [
        onnx.helper.make_node("If", ["c"], ["y"], "if", then_branch=branch, else_branch=branch),
        onnx.helper.make_node("Identity", ["x"], ["echo"], domain="", name="plain"),
        # Names its domain for the file, as `write` looks at the outermost nodes.
        onnx.helper.make_node("Gelu", ["x"], ["w"], "outer", domain="com.microsoft"),
    ]
    path = write(
        tmp_path / "odd.onnx",
        nodes,
        [("x", "FLOAT", [2]), ("c", "BOOL", [])],
        [("y", "FLOAT", [2]), ("echo", "FLOAT", [2]), ("w", "FLOAT", [2])],
    )
    with ONNXRunner(path) as run:
        assert run.ops()["com.microsoft.Gelu"] == ["outer", "odd", "odd"]
        assert run.ops()["Identity"] == ["plain"]
        found = BuiltInOps().test(Subject(None, None, run), None)
    assert (found.status, found.detail.split(": ")[1]) == ("fail", "com.microsoft.Gelu")
    assert BuiltInOps().test(Subject(None, None, standard), None).status == "pass"


@pytest.mark.parametrize("content", [b"", b"\xff" * 30, b"half"])
def test_a_damaged_file_raises_one_line(echo, tmp_path, content):
    whole = echo.read_bytes()
    path = tmp_path / "damaged.onnx"
    path.write_bytes(whole[: len(whole) // 2] if content == b"half" else content)
    with pytest.raises(RunnerError, match=r"^ONNX [^\n]*damaged.onnx: [^\n]+$"):
        ONNXRunner(path)
