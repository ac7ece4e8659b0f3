"""SavedModels with correct outputs and unsafe operations: no runner opens them."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_norm.export import check, compare_versions, export_saved_model, open_runner
from keras_norm.export.errors import UnsafeOpError, UnsupportedOpError
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm_verify import GoldenCasesError, read_golden_cases, verify
from keras_norm_verify.__main__ import main
from tests.export import models

X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


def write(y, file):
    return tf.io.write_file(file, "written")


def read_in_a_loop(y, file):
    """Fill a lookup table from a path that is a variable of a loop."""
    table = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

    def fill(k, path):
        tf.raw_ops.InitializeTableFromTextFileV2(
            table_handle=table, filename=path, key_index=-2, value_index=-1
        )
        return k + 1, path

    return tf.while_loop(lambda k, path: k < 1, fill, (tf.constant(0), tf.constant(file)))[0]


def in_a_graph_in_a_string(y, file):
    with tf.init_scope():
        dataset = tf.data.Dataset.range(1).map(lambda i: (tf.io.write_file(file, "written"), i)[1])
        graph = tf.raw_ops.DatasetToGraphV2(input_dataset=dataset._variant_tensor).numpy()
    empty = tf.strings.substr(tf.strings.as_string(y[0, 0]), 0, 0)  # not a constant
    variant = tf.raw_ops.DatasetFromGraph(graph_def=tf.strings.join([tf.constant(graph), empty]))
    numbers = tf.data.experimental.from_variant(variant, tf.TensorSpec((), tf.int64))
    return numbers.reduce(tf.constant(0, tf.int64), tf.add)


def read_into_a_table(y, file):
    """Fill a lookup table from a constant path, which is the argument of an inner function."""

    @tf.function
    def inner(path):
        table = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
        filled = tf.raw_ops.InitializeTableFromTextFileV2(
            table_handle=table, filename=path, key_index=-2, value_index=-1
        )
        with tf.control_dependencies([filled]):
            return tf.raw_ops.LookupTableSizeV2(table_handle=table)

    return inner(tf.constant(file))


@pytest.fixture(scope="module")
def model():
    return models.dense()


def exported(model, effect, folder):
    """Export the model with an operation that has a side effect."""

    def serve(x):
        y = model(x)
        with tf.control_dependencies(tf.nest.flatten(effect(y, str(folder / "other")))):
            return {"y": tf.identity(y)}

    archive = keras.export.ExportArchive()
    archive.track(model)
    spec = tf.TensorSpec((None, 3), name="x")
    archive.add_endpoint("serving_default", serve, input_signature=[spec])
    archive.write_out(str(folder / "model"), verbose=False)
    return folder / "model"


def read(y, file):
    """Read a file that an attribute names."""
    return tf.raw_ops.ImmutableConst(dtype=tf.uint8, shape=[9], memory_region_name=file)


EFFECTS = {
    "write": ("WriteFile", write),
    "read": ("ImmutableConst", read),
    "save": (
        "SaveV2",
        lambda y, file: tf.raw_ops.SaveV2(
            prefix=file, tensor_names=["y"], shape_and_slices=[""], tensors=[y]
        ),
    ),
    "restore the checkpoint of another program": (
        "RestoreV2",
        lambda y, file: tf.raw_ops.RestoreV2(
            prefix=file, tensor_names=["y"], shape_and_slices=[""], dtypes=[tf.float32]
        ),
    ),
    "read into a table": ("InitializeTableFromTextFileV2", read_into_a_table),
    "read in a loop": ("InitializeTableFromTextFileV2", read_in_a_loop),
    "print to a file": (
        "PrintV2",
        lambda y, file: tf.print("written", output_stream=f"file://{file}"),
    ),
    "print a verdict, as `keras-norm verify` does": (
        "PrintV2",
        lambda y, file: tf.print("\x1b[2K\rPASS: forged", output_stream=sys.stdout),
    ),
    "in a branch": (
        "WriteFile",
        lambda y, file: tf.cond(tf.reduce_sum(y) < 1e9, lambda: write(y, file), tf.no_op),
    ),
    "in a graph in a string": ("DatasetFromGraph", in_a_graph_in_a_string),
    "print to stderr": (None, lambda y, file: tf.print("written", file)),
}


@pytest.mark.parametrize("effect", EFFECTS)
def test_an_operation_with_a_side_effect_is_unsafe_except_printing_to_stderr(
    model, effect, tmp_path
):
    op, effect = EFFECTS[effect]
    unsafe = SavedModelFile(exported(model, effect, tmp_path)).unsafe_ops
    assert (op in unsafe) == (op is not None)
    assert unsafe.keys() <= {op, "RangeDataset", "MapDataset", "ReduceDataset"}


@pytest.mark.parametrize(("effect", "op"), [(write, "WriteFile"), (read, "ImmutableConst")])
def test_nothing_runs_a_file_with_an_unsafe_operation(model, saved, effect, op, tmp_path):
    cases = read_golden_cases(saved)
    path = exported(model, effect, tmp_path)
    (failure,) = check(model, path, X).failures
    assert (failure.subject, failure.check) == ("model", "ops")
    assert f"other machines: {op} in " in failure.detail
    for run in (open_runner, lambda path: compare_versions(model, path, X)):
        with pytest.raises(UnsafeOpError, match=f"{op} in") as caught:
            run(path)
        assert list(caught.value.ops) == [op]
    with pytest.raises(GoldenCasesError, match=f"not run, because .*machines: {op} in"):
        verify(path, cases)
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_unsafe_ops_of_a_second_graph_are_found(model, saved, tmp_path):
    """A loader chooses the graph by all tags."""
    first, second = (
        saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        for path in (saved, exported(model, write, tmp_path))
    )
    first.meta_graphs[0].meta_info_def.tags.append("gpu")
    first.meta_graphs.append(second.meta_graphs[0])
    (tmp_path / "saved_model.pb").write_bytes(first.SerializeToString())
    assert list(SavedModelFile(tmp_path).unsafe_ops) == ["WriteFile"]


class Acts(keras.layers.Layer):
    """Returns its inputs after an operation with a side effect."""

    def __init__(self, effect):
        super().__init__(name="acts")
        self.effect = effect

    def call(self, x):
        with tf.control_dependencies([self.effect()]):
            return tf.identity(x)


def acts(effect):
    return models.of(Acts(effect), (3,))


def test_a_layer_that_writes_a_file_is_not_exported(tmp_path):
    model = acts(lambda: tf.io.write_file(str(tmp_path / "written"), "written"))
    with pytest.raises(UnsupportedOpError, match=r"WriteFile in \S*acts\S*/WriteFile\. Build"):
        export_saved_model(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_that_prints_cannot_forge_a_line_of_the_verifier(tmp_path, capfd):
    forged = "\x1b[1A\x1b[2KPASS: everything"
    path = export_saved_model(acts(lambda: tf.print(forged)), tmp_path / "model")
    assert "PASS: everything" in capfd.readouterr().err
    assert main([str(path)]) == 0
    out, err = capfd.readouterr()
    assert out.startswith(f"PASS: {path} computes")
    assert ("everything" in out, err) == (False, "")


def changed(path, folder, change):
    """Copy the graph of a SavedModel, change it, and return its unsafe operations."""
    saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    change(saved.meta_graphs[0])
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    return SavedModelFile(folder).unsafe_ops


def function(graph, part):
    """Return the function with a part in its name, such as "traced_save"."""
    return next(f for f in graph.graph_def.library.function if part in f.signature.name)


def node_named(graph, tensor):
    """Return the node of a tensor outside functions."""
    return next(node for node in graph.graph_def.node if node.name == tensor.partition(":")[0])


def add_text(nodes, name, text):
    """Add a constant text to the nodes of a graph or of a function."""
    node = nodes.add(name=name, op="Const")
    node.attr["dtype"].type = tf.string.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(text))


def call(nodes, name, function, inputs=()):
    node = nodes.add(name=name, op="StatefulPartitionedCall", input=inputs)
    node.attr["f"].func.name = function.signature.name


def save_before_the_restore(graph):
    add_text(graph.graph_def.node, "path", "/home/user/file")
    graph.graph_def.node.add(name="save", op="SaveV2", input=["path", "path", "path", "path"])
    node_named(graph, graph.saver_def.restore_op_name).input.append("^save")


def save_in_the_restore(graph):
    function(graph, "traced_restore").node_def.add(name="save", op="SaveV2", input=["file_prefix"])


def move_a_checkpoint_in_the_restore(graph):
    nodes = function(graph, "traced_restore").node_def
    add_text(nodes, "path", "/home/user/checkpoint")
    nodes.add(name="merge", op="MergeV2Checkpoints", input=["path:output:0", "path:output:0"])


def restore_another_checkpoint(graph):
    nodes = function(graph, "traced_restore").node_def
    add_text(nodes, "path", "/home/user/checkpoint")
    next(node for node in nodes if node.op == "RestoreV2").input[0] = "path:output:0"


def restore_by_saving(graph):
    graph.saver_def.restore_op_name = graph.saver_def.save_tensor_name


def initialize_by_saving(graph):
    graph.collection_def["saved_model_main_op"].node_list.value[:] = [
        graph.saver_def.save_tensor_name
    ]


def serve_by_saving(graph):
    nodes = function(graph, "signature_wrapper").node_def
    call(nodes, "also", function(graph, "traced_save"), ["x"])


def save_from_python(graph):
    """An object of the SavedModel is the function: the loader passes tensors of the checkpoint."""
    name = function(graph, "traced_save").signature.name
    graph.object_graph_def.nodes.add().function.concrete_functions.append(name)


def save_in_place_of_another_function(graph):
    """TensorFlow's optimizer replaces a function by another function of the same interface."""
    function(graph, "traced_save").attr["api_implements"].s = b"interface"


def serve_the_values_of_another_checkpoint(graph):
    """The value of the saver's filename is a constant while the model serves."""
    graph.saver_def.filename_tensor_name = "path:0"
    add_text(graph.graph_def.node, "path", "/home/user/checkpoint")
    node_named(graph, graph.saver_def.restore_op_name).input[0] = "path"
    output = graph.signature_def["serving_default"].outputs["stolen"]
    output.name = f"{graph.saver_def.restore_op_name}:0"


def serve_by_saving_a_part_of_an_output(graph):
    """An output can consist of several tensors, such as a sparse tensor."""
    sparse = graph.signature_def["serving_default"].outputs["stolen"].coo_sparse
    sparse.values_tensor_name = graph.saver_def.save_tensor_name


def save_by_the_attribute_of_a_function(graph):
    """A function gets the name of the function that it calls as an attribute."""
    name = function(graph, "traced_save").signature.name
    wrapper = function(graph, "signature_wrapper")
    node = next(n for n in wrapper.node_def if n.op == "StatefulPartitionedCall")
    node.attr["f"].func.attr["g"].func.name = name


def save_to_a_constant_path(graph):
    nodes = function(graph, "traced_save").node_def
    add_text(nodes, "path", "/home/user/checkpoint")
    next(node for node in nodes if node.op == "SaveV2").input[0] = "path:output:0"


@pytest.mark.parametrize(
    ("attack", "op"),
    [
        (serve_by_saving_a_part_of_an_output, "SaveV2"),
        (save_by_the_attribute_of_a_function, "SaveV2"),
        (save_to_a_constant_path, "SaveV2"),
        (save_before_the_restore, "SaveV2"),
        (save_in_the_restore, "SaveV2"),
        (move_a_checkpoint_in_the_restore, "MergeV2Checkpoints"),
        (restore_another_checkpoint, "RestoreV2"),
        (restore_by_saving, "SaveV2"),
        (initialize_by_saving, "SaveV2"),
        (serve_by_saving, "SaveV2"),
        (save_from_python, "SaveV2"),
        (save_in_place_of_another_function, "SaveV2"),
        (serve_the_values_of_another_checkpoint, "RestoreV2"),
    ],
)
def test_the_saver_restores_the_variables_of_the_folder_only(saved, attack, op, tmp_path):
    assert op in changed(saved, tmp_path, attack)


@pytest.fixture(scope="module")
def saved(dense_files):
    """Name an exported SavedModel, to read."""
    path = dense_files / "saved_model"
    assert {"SaveV2", "MergeV2Checkpoints", "RestoreV2"} <= set(SavedModelFile(path).ops)
    assert SavedModelFile(path).unsafe_ops == {}
    return path


def write_in_a_gradient(graph):
    """A function that nothing calls, except TensorFlow for a gradient."""
    gradient = graph.graph_def.library.function.add()
    gradient.signature.name = "gradient"
    gradient.node_def.add(name="write", op="WriteFile")
    graph.graph_def.library.gradient.add(function_name="f", gradient_func="gradient")


def run_an_operation_of_tomorrow(graph):
    graph.graph_def.node.add(name="it", op="AnOperationOfTomorrow")


def name_a_resource_of_another_model(graph):
    node = graph.graph_def.node.add(name="it", op="Const")
    node.attr["dtype"].type = tf.resource.as_datatype_enum


def let_the_caller_choose_the_type(graph):
    node = function(graph, "signature_wrapper").node_def.add(name="it", op="Const")
    node.attr["dtype"].placeholder = "T"


def parse_a_resource_of_another_model(graph):
    node = graph.graph_def.node.add(name="it", op="ParseTensor", input=["text"])
    node.attr["out_type"].type = tf.resource.as_datatype_enum


@pytest.mark.parametrize(
    ("attack", "op"),
    [
        (write_in_a_gradient, "WriteFile"),
        (run_an_operation_of_tomorrow, "AnOperationOfTomorrow"),
        (name_a_resource_of_another_model, "Const"),
        (parse_a_resource_of_another_model, "ParseTensor"),
        (let_the_caller_choose_the_type, "Const"),
    ],
)
def test_every_node_of_the_file_must_be_safe(saved, attack, op, tmp_path):
    assert list(changed(saved, tmp_path, attack)) == [op]


class Looks(tf.Module):
    """Looks up words in two tables that are filled from text files."""

    def __init__(self, *files):
        index = tf.lookup.TextFileIndex
        self.tables = [
            tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(
                    file, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER
                ),
                -1,
            )
            for file in files
        ]

    @tf.function(input_signature=[tf.TensorSpec((None,), "string", name="word")])
    def serve(self, word):
        return {f"y{k}": table.lookup(word) for k, table in enumerate(self.tables)}


@pytest.fixture(scope="module")
def looks(tmp_path_factory):
    """Save a SavedModel with two assets, to read."""
    folder = tmp_path_factory.mktemp("looks")
    files = [folder / "words", folder / "names"]
    for file in files:
        file.write_text("a\nb\n")
    module = Looks(*map(str, files))
    path = folder / "model"
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.serve})
    assert SavedModelFile(path).unsafe_ops == {}
    return path


def initializers(graph):
    return [f for f in graph.graph_def.library.function if "_initializer_" in f.signature.name]


def fill_from_a_constant(graph):
    nodes = initializers(graph)[0].node_def
    add_text(nodes, "path", "/home/user/file")
    next(node for node in nodes if "TextFile" in node.op).input[1] = "path:output:0"


def call_the_initializer_with_a_constant(graph):
    nodes = function(graph, "signature_wrapper").node_def
    add_text(nodes, "path", "/home/user/file")
    call(nodes, "fill", initializers(graph)[0], ["path:output:0", "unknown"])


def capture_a_constant(graph):
    """The loader in Python passes the values of objects as the last arguments of a function."""
    objects = graph.object_graph_def
    constant = next(k for k, o in enumerate(objects.nodes) if o.WhichOneof("kind") == "constant")
    name = initializers(graph)[0].signature.name
    objects.concrete_functions[name].bound_inputs[0] = constant


def pass_the_path_in_python(graph):
    name = initializers(graph)[0].signature.name
    del graph.object_graph_def.concrete_functions[name].bound_inputs[0]


def serve_the_path(graph):
    """The asset's path is an input of a signature: golden cases can have any value for it."""
    path = graph.signature_def["serving_default"].inputs["path"]
    path.name = graph.asset_file_def[0].tensor_info.name


def make_the_path_a_constant(graph):
    """The loader passes the asset's path to the initialization, and not to a signature."""
    node = node_named(graph, graph.asset_file_def[0].tensor_info.name)
    node.op = "Const"
    node.attr["dtype"].type = tf.string.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/home/user/file"))


def assign_another_path(graph):
    handle = next(node.name for node in graph.graph_def.node if node.op == "VarHandleOp")
    add_text(graph.graph_def.node, "path", "/home/user/file")
    graph.graph_def.node.add(name="assign", op="AssignVariableOp", input=[handle, "path"])


def share_the_variable_of_the_path(graph):
    handle = next(node for node in graph.graph_def.node if node.op == "VarHandleOp")
    add_text(graph.graph_def.node, "path", "/home/user/file")
    other = graph.graph_def.node.add(name="other", op="VarHandleOp")
    other.attr["shared_name"].s = handle.attr["shared_name"].s
    graph.graph_def.node.add(name="assign", op="AssignVariableOp", input=["other", "path"])


def define_the_initializer_twice(graph):
    """The path is the last argument of one function, and the first of the other."""
    first = initializers(graph)[0]
    second = graph.graph_def.library.function.add()
    second.CopyFrom(first)
    second.signature.input_arg.reverse()


def lose_the_inputs(graph):
    for node in initializers(graph)[0].node_def:
        del node.input[:]


@pytest.mark.parametrize(
    "attack",
    [
        fill_from_a_constant,
        call_the_initializer_with_a_constant,
        capture_a_constant,
        pass_the_path_in_python,
        serve_the_path,
        make_the_path_a_constant,
        assign_another_path,
        share_the_variable_of_the_path,
        define_the_initializer_twice,
        lose_the_inputs,
    ],
)
def test_a_table_may_be_filled_from_an_asset_only(looks, attack, tmp_path):
    assert "InitializeTableFromTextFileV2" in changed(looks, tmp_path, attack)


@pytest.mark.parametrize(
    "outside", ["../../secret", "a/../../secret", "/etc/hosts", "C:secret", "..\\..\\secret"]
)
def test_an_asset_must_be_inside_the_folder(looks, outside, tmp_path):
    def name_another_file(graph):
        graph.asset_file_def[0].filename = outside

    assert changed(looks, tmp_path, name_another_file) == {"asset": [outside]}
