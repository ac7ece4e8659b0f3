"""Padding on either side changes no output of an exported recurrent BatchNorm."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import Step, export_onnx, export_saved_model, export_tflite, open_runner
from tests.rnn import kinds

TIME, PADDED, FEATURES = 4, 7, 3
X = np.random.default_rng(0).normal(size=(2, TIME, FEATURES)).astype("float32")
EXPORTS = {
    "saved_model": lambda model, path: export_saved_model(model, path, step=False),
    "model.tflite": lambda model, path: export_tflite(model, path, step=False),
    "model.onnx": export_onnx,
}


def with_random_statistics(layer):
    """Return a model with different statistics at each timestep, behind a mask of zeros."""
    x = keras.Input((None, FEATURES), name="x")
    model = keras.Model(x, keras.layers.Identity(name="y")(layer(keras.layers.Masking()(x))))
    kinds.randomize(model)
    kinds.randomize_statistics(model)
    return model


def pad(start):
    padded = np.zeros((len(X), PADDED, FEATURES), "float32")
    padded[:, start : start + TIME] = X
    return padded


@pytest.fixture(scope="module")
def bidirectional():
    lstm = keras_norm.BatchNormLSTM(4, max_timesteps=TIME)
    return with_random_statistics(keras.layers.Bidirectional(lstm))


@pytest.mark.slow  # 13 to 23 s each
@pytest.mark.parametrize("name", EXPORTS)
def test_padding_changes_no_output_of_a_file(bidirectional, name, tmp_path):
    if name == "model.onnx":
        pytest.importorskip("tf2onnx")
        pytest.importorskip("onnxruntime")
    expected = bidirectional(X)
    with open_runner(EXPORTS[name](bidirectional, tmp_path / name)) as run:
        for start in (0, PADDED - TIME, 1):
            np.testing.assert_allclose(run({"x": pad(start)})["y"], expected, atol=1e-5)
        np.testing.assert_allclose(run({"x": X})["y"], expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "export"), [("saved_model", export_saved_model), ("model.tflite", export_tflite)]
)
@pytest.mark.parametrize("count_leading_padding", [False, True])
def test_the_step_equals_training_on_sequences_padded_on_the_left(
    name, export, count_leading_padding, tmp_path
):
    """After `recalibrate` on one batch, inference equals training on this batch."""
    x = np.random.default_rng(0).normal(size=(32, PADDED, FEATURES)).astype("float32")
    x[np.arange(PADDED) < np.arange(len(x))[:, None] % TIME] = 0.0
    options = {"count_leading_padding": count_leading_padding, "return_sequences": True}
    model = with_random_statistics(keras_norm.BatchNormLSTM(4, PADDED, name="lstm", **options))
    keras_norm.recalibrate(model, x)
    expected = keras.ops.convert_to_numpy(model(x, training=True))
    path = export(model, tmp_path / name, step=True, golden_cases=False)
    states = Step(model).initial_states(len(x))
    with open_runner(path, signature_name="step") as run:
        for t in range(PADDED):
            outputs = run({"x": x[:, t], **states})
            np.testing.assert_allclose(outputs["y"], expected[:, t], atol=1e-5, err_msg=str(t))
            states = {name: outputs[name] for name in states}
