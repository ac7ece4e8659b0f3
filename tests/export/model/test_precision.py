import keras
import numpy as np
import pytest

from keras_norm.export import export_tflite
from keras_norm.export.compare.tolerance import coarsest
from keras_norm.export.formats.tflite.tflite_file import read_tflite
from keras_norm.export.model.precision import model_precision


@pytest.mark.parametrize(
    ("quantize", "precision"), [(None, "float32"), ("float16", "float16"), ("dynamic", "int8")]
)
def test_a_tflite_file_has_the_precision_of_its_weights(tmp_path, quantize, precision):
    # The converter leaves weights of fewer than 1,024 elements alone.
    model = keras.Sequential([keras.Input((64,), name="x"), keras.layers.Dense(64)])
    path = export_tflite(model, tmp_path / "model.tflite", quantize=quantize)
    assert coarsest(read_tflite(path).numbers) == precision


def test_a_model_has_the_precision_of_its_coarsest_layer():
    inputs = keras.Input((3,))
    h = keras.layers.Dense(2, dtype="mixed_bfloat16")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(h))
    assert model_precision(model, {"y": np.zeros(2, "float32")}) == "bfloat16"


def test_ids_and_classes_of_8_bits_are_no_quantized_weights():
    ids = keras.Input((4,), dtype="int8", name="ids")
    h = keras.layers.Embedding(5, 3)(ids)
    model = keras.Model(ids, {"y": h, "kind": keras.ops.cast(h[:, 0, 0] > 0, "int8")})
    assert model_precision(model, {"kind": np.zeros(2, "int8")}) == "float32"


@pytest.fixture
def float64():
    """Layers compute in float64."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("received", ["float32", "float64"])
def test_a_layer_that_casts_nothing_computes_in_the_precision_of_its_input(received):
    inputs = keras.Input((3,), dtype=received)
    model = keras.Model(inputs, keras.layers.LayerNormalization()(inputs))
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(received)
    y = np.array(model(x))
    wide = x.astype("float64")
    deviation = np.sqrt(wide.var(axis=-1, keepdims=True) + 1e-3)
    error = np.abs(y - (wide - wide.mean(axis=-1, keepdims=True)) / deviation).max()
    assert (error < 1e-14) == (received == "float64")
    assert y.dtype == "float64"
    assert model_precision(model, {"y": y}) == received
