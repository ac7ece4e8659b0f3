"""Files of a model that takes resets have an input of resets, also in the step."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import Step, check, export_onnx, export_saved_model, export_tflite
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.input_sizes import measure_input_sizes
from keras_norm.export.signature import input_specs
from tests.rnn import kinds

RNG = np.random.default_rng(0)
TOKENS = RNG.integers(0, 9, (6, 11)).astype("int32")
INPUTS = {"tokens": TOKENS, "resets": RNG.random((6, 11)) < 0.3}


@pytest.fixture(scope="module")
def model():
    """A model with a mask, and with statistics that count timesteps from the resets."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    resets = keras.Input((None,), dtype="bool", name="resets")
    y = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
    layer = keras_norm.BatchNormSimpleRNN(5, max_timesteps=4, return_sequences=True)
    model = keras.Model([tokens, resets], layer(y, resets=resets))
    kinds.randomize(layer)
    kinds.randomize_statistics(layer)
    return model


def test_files_and_their_steps_have_the_outputs_of_the_model(model, tmp_path):
    """Each exporter compares the outputs of the sequences and of the step with the model's."""
    paths = []
    for export, name in ((export_saved_model, "saved"), (export_tflite, "m.tflite")):
        paths.append(export(model, tmp_path / name, step=True))
    paths.append(export_onnx(model, tmp_path / "m.onnx"))
    assert check(model, paths, INPUTS).passed


def test_a_step_starts_anew_at_a_reset(model):
    step = Step(model)
    assert step.inputs["resets"].shape == (None,)
    outputs = step.over_time(step.joined, INPUTS)
    expected = model.predict(INPUTS, verbose=0)
    (found,) = outputs.values()
    kinds.assert_close(found, expected, 1e-6)
    without = {**INPUTS, "resets": np.zeros_like(INPUTS["resets"])}
    (other,) = step.over_time(step.joined, without).values()
    assert np.abs(other - expected).max() > 0.01


def test_input_sizes_of_a_layer_with_resets_are_those_of_unmasked_timesteps():
    x = keras.Input((None, 3), name="x")
    resets = keras.Input((None,), dtype="bool", name="resets")
    layer = keras_norm.LayerNormGRU(4)
    model = keras.Model([x, resets], layer(keras.layers.Masking()(x), resets=resets))
    given = {"x": np.full((2, 4, 3), 2.0, "float32"), "resets": np.zeros((2, 4), bool)}
    given["x"][:, 2:] = 0.0
    (sizes,) = measure_input_sizes(model, read_samples(input_specs(model), given))
    assert sizes.low == sizes.high == pytest.approx(12**0.5)
