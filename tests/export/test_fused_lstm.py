import runpy

import flatbuffers
import pytest
from ai_edge_litert import schema_py_generated as schema

from keras_norm.export.runners.worker_process import FOLDER


@pytest.fixture(scope="module")
def fuse():
    """The function of the worker's script, which is no module of the package."""
    return runpy.run_path(str(FOLDER / "fused_lstm.py"))["fuse"]


def file_with(*names, loop=False):
    """A TFLite file with custom operations of these names, in its main graph or in a loop."""
    model, graphs = schema.ModelT(), [schema.SubGraphT(), schema.SubGraphT()]
    model.version, model.subgraphs, model.buffers = 3, graphs, []
    signature = schema.SignatureDefT()
    signature.subgraphIndex, signature.inputs, signature.outputs = 0, [], []
    model.signatureDefs, model.operatorCodes = [signature], []
    for graph in graphs:
        graph.tensors, graph.inputs, graph.outputs, graph.operators = [], [], [], []
    for i, name in enumerate(names):
        code, operator = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode = schema.BuiltinOperator.CUSTOM
        code.customCode, operator.opcodeIndex = name, i
        operator.inputs, operator.outputs = [], []
        model.operatorCodes.append(code)
        graphs[loop].operators.append(operator)
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_operations_that_are_no_builtins_are_named_as_the_converter_names_them(fuse):
    with pytest.raises(ValueError, match=r"\n\ttf\.MatrixDeterminant\n\ttf\.Odd$"):
        fuse(file_with("MatrixDeterminant", "keras_norm_lstm", "Odd"))


def test_an_lstm_inside_a_loop_is_refused(fuse):
    with pytest.raises(ValueError, match="in the loop of another layer"):
        fuse(file_with("keras_norm_lstm", loop=True))
