"""SavedModels with correct outputs and unsafe operations: no runner opens them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_norm.export import check, compare_versions, export_saved_model, open_runner
from keras_norm.export.errors import UnsafeOpError, UnsupportedOpError
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm_verify import GoldenCasesError, read_golden_cases, verify
from tests.export import models

X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


def write(y, file):
    return tf.io.write_file(file, "written")


def save(y, file):
    return tf.raw_ops.SaveV2(prefix=file, tensor_names=["y"], shape_and_slices=[""], tensors=[y])


def to_stream(y, file):
    return tf.print("written", output_stream=f"file://{file}")


def in_a_branch(y, file):
    return tf.cond(tf.reduce_sum(y) < 1e9, lambda: write(y, file), tf.no_op)


def in_a_graph_in_a_string(y, file):
    with tf.init_scope():
        dataset = tf.data.Dataset.range(1).map(lambda i: (tf.io.write_file(file, "written"), i)[1])
        graph = tf.raw_ops.DatasetToGraphV2(input_dataset=dataset._variant_tensor).numpy()
    empty = tf.strings.substr(tf.strings.as_string(y[0, 0]), 0, 0)  # not a constant
    variant = tf.raw_ops.DatasetFromGraph(graph_def=tf.strings.join([tf.constant(graph), empty]))
    numbers = tf.data.experimental.from_variant(variant, tf.TensorSpec((), tf.int64))
    return numbers.reduce(tf.constant(0, tf.int64), tf.add)


def to_stderr(y, file):
    return tf.print("written", file)


@pytest.fixture(scope="module")
def model():
    return models.dense()


def exported(model, effect, folder):
    """Export the model with an operation that has a side effect."""

    def serve(x):
        y = model(x)
        with tf.control_dependencies([effect(y, str(folder / "written"))]):
            return {"y": tf.identity(y)}

    archive = keras.export.ExportArchive()
    archive.track(model)
    spec = tf.TensorSpec((None, 3), name="x")
    archive.add_endpoint("serving_default", serve, input_signature=[spec])
    archive.write_out(str(folder / "model"), verbose=False)
    return folder / "model"


@pytest.mark.parametrize(
    ("effect", "op"),
    [
        (write, "WriteFile"),
        (save, "SaveV2"),
        (to_stream, "PrintV2"),
        (in_a_branch, "WriteFile"),
        (in_a_graph_in_a_string, "DatasetFromGraph"),
    ],
)
def test_a_file_with_an_op_that_writes_files_fails_and_is_not_run(model, effect, op, tmp_path):
    path = exported(model, effect, tmp_path)
    report = check(model, path, X)
    (failure,) = report.failures
    assert (failure.subject, failure.check) == ("model", "ops")
    assert f"other machines: {op} in " in failure.detail
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_printing_to_stderr_is_not_unsafe(model, tmp_path):
    assert check(model, exported(model, to_stderr, tmp_path), X)


def test_open_runner_and_compare_versions_do_not_run_an_unsafe_file(model, tmp_path):
    path = exported(model, write, tmp_path)
    for run in (open_runner, lambda path: compare_versions(model, path, X)):
        with pytest.raises(UnsafeOpError, match="WriteFile in") as caught:
            run(path)
        assert list(caught.value.ops) == ["WriteFile"]
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_golden_cases_do_not_run_an_unsafe_file(model, tmp_path):
    good, path = export_saved_model(model, tmp_path / "good"), exported(model, write, tmp_path)
    cases = read_golden_cases(good)
    with pytest.raises(GoldenCasesError, match="not run: WriteFile in"):
        verify(path, cases)
    assert not (tmp_path / "written").exists()


def test_unsafe_ops_of_a_second_graph_are_found(model, tmp_path):
    """A loader chooses the graph by all tags."""
    unsafe = exported(model, write, tmp_path) / "saved_model.pb"
    second = saved_model_pb2.SavedModel.FromString(unsafe.read_bytes()).meta_graphs[0]
    path = export_saved_model(model, tmp_path / "good")
    saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    saved.meta_graphs[0].meta_info_def.tags.append("gpu")
    saved.meta_graphs.append(second)
    (path / "saved_model.pb").write_bytes(saved.SerializeToString())
    assert list(SavedModelFile(path).unsafe_ops) == ["WriteFile"]


class Writes(keras.layers.Layer):
    def __init__(self, file):
        super().__init__(name="writes")
        self.file = file

    def call(self, x):
        with tf.control_dependencies([tf.io.write_file(self.file, "written")]):
            return tf.identity(x)


def test_a_layer_that_writes_a_file_is_not_exported(tmp_path):
    x = keras.Input((3,), name="x")
    model = keras.Model(x, Writes(str(tmp_path / "written"))(x))
    with pytest.raises(UnsupportedOpError, match=r"WriteFile in \S*writes\S*/WriteFile"):
        export_saved_model(model, tmp_path / "model")


def changed(path, folder, change):
    """Copy a SavedModel and change its graph."""
    saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    change(saved.meta_graphs[0])
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    return SavedModelFile(folder)


def test_the_functions_that_save_the_variables_are_not_unsafe(model, tmp_path):
    path = export_saved_model(model, tmp_path / "model")
    assert {"SaveV2", "RestoreV2"} <= set(SavedModelFile(path).ops)
    assert SavedModelFile(path).unsafe_ops == {}


def test_a_signature_that_calls_the_saving_function_is_unsafe(model, tmp_path):
    def call_it(graph):
        functions = {f.signature.name: f for f in graph.graph_def.library.function}
        saves = next(name for name in functions if "traced_save" in name)
        serves = next(f for name, f in functions.items() if "signature_wrapper" in name)
        node = serves.node_def.add(name="also", op="StatefulPartitionedCall")
        node.attr["f"].func.name = saves

    path = export_saved_model(model, tmp_path / "model")
    assert {"SaveV2", "MergeV2Checkpoints"} == set(
        changed(path, tmp_path / "changed", call_it).unsafe_ops
    )


@pytest.mark.parametrize(
    ("op", "found"),
    [
        ("ReadFile", True),
        ("TFRecordDatasetV2", True),
        ("CreateSummaryFileWriter", True),
        ("DebugIdentityV2", True),
        ("EagerPyFunc", True),
        ("CollectiveGatherV2", True),
        ("RpcCall", True),
        ("GenerateVocabRemapping", True),
        ("FixedUnigramCandidateSampler", True),
        ("Skipgram", True),
        ("DecodeProtoV2", True),
        ("EncodeProto", True),
        ("DeserializeIterator", True),
        ("ShardedFilename", False),
        ("LookupTableFindV2", False),
        ("DebugGradientIdentity", False),
        ("StatefulUniform", False),
    ],
)
def test_unsafe_ops_are_recognized_by_their_names(model, op, found, tmp_path):
    def add_it(graph):
        graph.graph_def.library.function[0].node_def.add(name="it", op=op)

    path = export_saved_model(model, tmp_path / "model")
    unsafe = changed(path, tmp_path / "changed", add_it).unsafe_ops
    assert unsafe == ({op: ["it"]} if found else {})


class Looks(tf.Module):
    """Looks up words in a table that is filled from a text file."""

    def __init__(self, file):
        index = tf.lookup.TextFileIndex
        filled = tf.lookup.TextFileInitializer(
            file, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER
        )
        self.table = tf.lookup.StaticHashTable(filled, -1)

    @tf.function(input_signature=[tf.TensorSpec((None,), "string", name="word")])
    def serve(self, word):
        return {"y": self.table.lookup(word)}


def test_a_table_may_be_filled_from_an_asset_only(tmp_path):
    (tmp_path / "words").write_text("a\nb\n")
    module = Looks(str(tmp_path / "words"))
    path = tmp_path / "model"
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.serve})
    assert SavedModelFile(path).unsafe_ops == {}

    def read_another(graph):
        for function in graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "InitializeTableFromTextFileV2":
                    node.input[1] = "a_constant:output:0"

    op = "InitializeTableFromTextFileV2"
    assert list(changed(path, tmp_path / "changed", read_another).unsafe_ops) == [op]


@pytest.mark.parametrize("outside", ["../../secret", "a/../../secret", "/etc/hosts"])
def test_an_asset_must_be_inside_the_folder(outside, tmp_path):
    (tmp_path / "words").write_text("a\nb\n")
    module = Looks(str(tmp_path / "words"))
    path = tmp_path / "model"
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.serve})

    def name_another_file(graph):
        graph.asset_file_def[0].filename = outside

    unsafe = changed(path, tmp_path / "changed", name_another_file).unsafe_ops
    assert unsafe == {"asset": [outside]}
