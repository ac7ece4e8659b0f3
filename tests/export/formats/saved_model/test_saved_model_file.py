"""The operations and signatures that are read from a SavedModel."""

import keras
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_norm.export import UnsupportedOpError, export_saved_model
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from tests.export import models


class CTCLoss(keras.layers.Layer):
    """Adds a loss whose loops TensorFlow writes as functions called by name."""

    def call(self, logits, labels):
        lengths = tf.fill([tf.shape(logits)[0]], 6)
        loss = tf.nn.ctc_loss(
            labels, logits, lengths // 3, lengths, logits_time_major=False, blank_index=-1
        )
        return logits + 0.0 * loss[:, None, None]


def test_a_function_called_by_its_name_is_not_a_foreign_operation(tmp_path):
    logits = keras.Input((6, 5), name="logits")
    labels = keras.Input((2,), dtype="int32", name="labels")
    model = keras.Model([logits, labels], CTCLoss()(logits, labels))
    path = export_saved_model(model, tmp_path / "m")
    assert not any(op.startswith(("body_", "cond_")) for op in SavedModelFile(path).ops)


def test_ops_inside_functions_are_listed_with_their_layers(tagger_saved_model):
    (node,) = SavedModelFile(tagger_saved_model).ops["MatMul"]
    assert "dense" in node


def test_a_model_trained_with_jit_compile_is_exported(tmp_path):
    model = models.dense()
    model.compile(jit_compile=True)
    assert SavedModelFile(export_saved_model(model, tmp_path / "model")).unservable_ops == {}


@pytest.mark.parametrize("op", ["XlaEinsum", "TheirOwnOp", "CudnnRNNV3"])
def test_operations_of_xla_of_users_and_of_a_gpu_are_found(tagger_saved_model, tmp_path, op):
    saved = saved_model_pb2.SavedModel.FromString(
        (tagger_saved_model / "saved_model.pb").read_bytes()
    )
    function = saved.meta_graphs[0].graph_def.library.function[0]
    function.node_def.add(name="model/odd/node", op=op)
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    assert SavedModelFile(tmp_path).unservable_ops == {op: ["model/odd/node"]}


def test_a_missing_signature_is_refused_with_the_list_of_signatures(tmp_path):
    module = tf.Module()
    module.f = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, str(tmp_path / "model"), signatures={"other": module.f})
    with pytest.raises(ValueError, match="no signature serving_default; its signatures are: other"):
        SavedModelFile(tmp_path / "model").read_signature()


def in_python(x):
    doubled = tf.numpy_function(lambda a: a * 2, [x], tf.float32)
    return tf.ensure_shape(doubled, (None, None, 3))


@pytest.mark.parametrize(
    ("function", "op"),
    [(tf.function(tf.nn.relu, jit_compile=True), "jit_compile"), (in_python, "PyFunc")],
)
def test_a_compiled_function_or_a_call_of_python_is_refused(function, op, tmp_path):
    with pytest.raises(UnsupportedOpError, match=f"{op} in") as caught:
        export_saved_model(models.with_function(function), tmp_path / "model")
    assert list(caught.value.ops) == [op]
    assert list(tmp_path.iterdir()) == []
