import keras
import numpy as np
import pytest

from keras_norm.export import export_tflite
from keras_norm.export.precision import model_precision, tflite_precision


@pytest.mark.parametrize(
    ("quantize", "precision"), [(None, "float32"), ("float16", "float16"), ("dynamic", "int8")]
)
def test_a_tflite_file_has_the_precision_of_its_weights(tmp_path, quantize, precision):
    # The converter leaves weights of fewer than 1,024 elements alone.
    model = keras.Sequential([keras.Input((64,), name="x"), keras.layers.Dense(64)])
    path = export_tflite(model, tmp_path / "model.tflite", quantize=quantize)
    assert tflite_precision(path) == precision


def test_a_model_has_the_precision_of_its_coarsest_layer():
    inputs = keras.Input((3,))
    h = keras.layers.Dense(2, dtype="mixed_bfloat16")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(h))
    assert model_precision(model, {"y": np.zeros(2, "float32")}) == "bfloat16"
