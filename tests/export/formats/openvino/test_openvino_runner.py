import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import RunnerError, Step, export_saved_model, export_tflite
from keras_norm.export.formats.openvino.openvino_runner import OpenVINORunner
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models

pytest.importorskip("openvino")

SHAPES = ((1, 4), (7, 9), (2, 1), (1, 4))


def assert_equals_keras(run, model, *cases):
    keras_run = KerasRunner(model)
    for data in cases:
        models.assert_same(run(data), keras_run(data))


def test_a_masked_stacked_bidirectional_model_at_several_shapes(tmp_path):
    ids = keras.Input((None,), dtype="int32", name="ids")
    h = keras.layers.Embedding(7, 4, mask_zero=True)(ids)
    h = keras.layers.Bidirectional(keras_norm.LayerNormSimpleRNN(4, return_sequences=True))(h)
    h = keras_norm.BatchNormSimpleRNN(4, max_timesteps=5)(h)
    model = keras.Model(ids, keras.layers.Dense(2, name="y")(h))
    rng = np.random.default_rng(0)
    with OpenVINORunner(export_saved_model(model, tmp_path / "model", step=False)) as run:
        cases = [{"ids": rng.integers(1, 7, shape).astype("int32")} for shape in SHAPES]
        for case in cases:
            case["ids"][:, case["ids"].shape[1] // 2 + 1 :] = 0
        assert_equals_keras(run, model, *cases)


def test_a_tflite_file_without_nested_loops_runs(tmp_path):
    last = models.of(keras_norm.LayerNormSimpleRNN(4))  # one loop, as no sequence comes out
    with OpenVINORunner(export_tflite(last, tmp_path / "last.tflite", step=False)) as run:
        assert_equals_keras(run, last, {"x": np.random.default_rng(0).normal(size=(2, 5, 3))})


def test_a_cell_whose_last_output_is_not_read_again_runs(tmp_path):
    """OpenVINO loses a value that a loop carries and does not read, if no iteration runs."""
    x = keras.Input((None, 3), name="x")
    plain, masked = (
        keras.layers.RNN(
            keras.layers.SimpleRNNCell(4), return_state=True, zero_output_for_mask=is_masked
        )
        for is_masked in (False, True)
    )
    model = keras.Model(x, [*plain(x), *masked(keras.layers.Masking()(x))])
    rng = np.random.default_rng(0)
    with OpenVINORunner(export_saved_model(model, tmp_path / "model", step=False)) as run:
        cases = [{"x": rng.normal(size=(2, length, 3))} for length in (5, 8, 9, 16)]
        assert_equals_keras(run, model, *cases)


def test_pooling_and_a_norm_after_it_in_any_batch(tmp_path):
    # OpenVINO joins them, and then takes rows of the batch for channels.
    x = keras.Input((None, 4), name="x")
    pooled = keras.layers.GlobalMaxPooling1D()(keras.layers.Conv1D(3, 2)(x))
    norm = keras.layers.BatchNormalization(name="y")
    model = keras.Model(x, norm(pooled))
    rng = np.random.default_rng(0)
    norm.set_weights([rng.uniform(0.5, 1.5, 3) for _ in range(4)])
    data = {"x": rng.normal(size=(8, 5, 4)).astype("float32")}
    with OpenVINORunner(export_saved_model(model, tmp_path / "model")) as run:
        assert_equals_keras(run, model, data)


def test_a_norm_in_float64_in_any_batch(tmp_path):
    # Of float64, OpenVINO joins the sum and the division of a mean as well.
    model = models.of(
        keras_norm.RMSNormalization(dtype="float64", name="y"), (None, 4), dtype="float64"
    )
    data = {"x": np.random.default_rng(0).normal(size=(8, 1, 4))}
    with OpenVINORunner(export_saved_model(model, tmp_path / "model")) as run:
        assert_equals_keras(run, model, data)


def test_a_reduction_in_a_branch_of_a_loop(tmp_path):
    rng = np.random.default_rng(0)
    weights = tf.constant(rng.normal(size=(3, 1)), "float32")

    @tf.function(input_signature=[tf.TensorSpec((None, 3, 4), name="x")])
    def served(x):
        def body(k, y):
            weighted = tf.cond(
                tf.reduce_max(y) > 0,
                lambda: weights * tf.reduce_sum(x * y, axis=2, keepdims=True),
                lambda: y[:, :, :1],
            )
            return k + 1, y + weighted

        return {"y": tf.while_loop(lambda k, _: k < 2, body, (0, x))[1]}

    data = {"x": rng.normal(size=(8, 3, 4)).astype("float32")}
    tf.saved_model.save(tf.Module(), tmp_path / "model", {"serving_default": served})
    with OpenVINORunner(tmp_path / "model") as run:
        models.assert_same(run(data), served(data["x"]), atol=1e-4)


def test_a_step_has_states_as_inputs_and_outputs_of_equal_names(recurrent, recurrent_saved_model):
    data = {"x": np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")}
    with OpenVINORunner(recurrent_saved_model, "step") as run:
        models.assert_same(Step(recurrent).over_time(run, data), KerasRunner(recurrent)(data))


def test_integers_of_more_than_32_bits_are_refused(echo):
    model, path = echo
    data = {f"{name}_in": np.ones((1, 3), name) for name in model.output}
    data["int64_in"][0, 0] = 2**40
    with (
        OpenVINORunner(path) as run,
        pytest.raises(RunnerError, match='the values of input "int64_in" do not fit'),
    ):
        run(data)


def test_a_damaged_file_raises_one_line(tmp_path):
    (tmp_path / "damaged.tflite").write_bytes(b"\xff" * 30)
    with pytest.raises(RunnerError, match=r"^OpenVINO [^\n]*damaged.tflite is damaged"):
        OpenVINORunner(tmp_path / "damaged.tflite")
