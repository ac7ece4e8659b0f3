"""Files of models whose initial states are learned or not zero, with and without resets.

The step takes and returns the differences from the initial states, so a stream begins with zeros.
"""

from functools import partial

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import Step, export_onnx, export_saved_model, export_tflite
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm_verify import verify
from tests.export import models
from tests.rnn import kinds

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 7, 3)).astype("float32")
RESETS = RNG.random((8, 7)) < 0.3
MASK = RNG.random((8, 7)) < 0.6
MASK[:4, :2], MASK[7] = False, False  # timesteps without a previous output
INPUTS = {"x": np.where(MASK[..., None], X, 0.0).astype("float32"), "resets": RESETS}
LEARNED = {"learn_initial_state": True}


class Warm(keras.layers.GRUCell):
    """A cell of a user whose initial states are ones."""

    def get_initial_state(self, batch_size=None):
        return [keras.ops.ones((batch_size, self.units))]


def one_layer(layer, *, masked):
    """Build a model of one layer with random weights, with or without a mask and resets."""
    x = keras.Input((None, 3), name="x")
    resets = keras.Input((None,), dtype="bool", name="resets")
    h = layer(keras.layers.Masking()(x), resets=resets) if masked else layer(x)
    h, *states = h if isinstance(h, list | tuple) else [h]
    states = [keras.layers.Identity(name=f"state_{k}")(state) for k, state in enumerate(states)]
    y = keras.layers.Dense(2, name="y")(h)
    model = keras.Model([x, resets] if masked else x, [y, *states])
    kinds.randomize(model)
    kinds.randomize_statistics(model)
    return model


def stream(model, step=None):
    """Return the outputs of the step for whole sequences, and those of the model."""
    step = step or Step(model)
    inputs = INPUTS if "resets" in step.inputs else {"x": INPUTS["x"]}
    return step.over_time(step.joined, inputs), KerasRunner(model)(inputs)


LAYERS = {
    "LSTM": (keras_norm.NormLSTM, {}, False),
    "joint GRU": (keras_norm.LayerNormGRU, {"norm_form": "joint_all"}, True),
    "counter": (keras_norm.BatchNormSimpleRNN, {"max_timesteps": 3}, True),
    "projection": (keras_norm.LayerNormLSTM, {"projection_units": 3, "zoneout": 0.2}, False),
    "zeros for masks": (keras_norm.LayerNormLSTM, {"zero_output_for_mask": True}, True),
}


@pytest.mark.parametrize(("layer", "options", "masked"), LAYERS.values(), ids=LAYERS)
def test_a_stream_from_zeros_equals_the_model_that_starts_from_learned_states(
    layer, options, masked
):
    options |= {"return_sequences": True, "return_state": True}
    model = one_layer(layer(4, name="rnn", **options, **LEARNED), masked=masked)
    step = Step(model)  # before the states change: the step reads the weights at each call
    learned = model.get_layer("rnn").cell.initial_states
    for state in learned:
        state.assign(RNG.normal(size=state.shape))
    found, expected = stream(model, step)
    models.assert_same(found, expected)
    for state in learned:
        state.assign(keras.ops.zeros_like(state))
    others, _ = stream(model, step)
    assert np.abs(others["y"] - expected["y"]).max() > 0.01


STACKED = [keras_norm.LayerNormLSTMCell(4, **LEARNED), keras_norm.LayerNormGRUCell(2, **LEARNED)]


@pytest.mark.parametrize("cell", [Warm(4), STACKED], ids=["own cell", "stacked cells"])
def test_other_cells_stream_from_zeros_too(cell):
    model = one_layer(keras.layers.RNN(cell, return_sequences=True), masked=False)
    models.assert_same(*stream(model))


EXPORTS = {
    "saved": partial(export_saved_model, step=True),
    "m.tflite": partial(export_tflite, step=True),
    "integers.tflite": partial(export_tflite, signature="step", quantize="int16x8", samples=INPUTS),
    "m.onnx": export_onnx,
}


@pytest.fixture(scope="module")
def learned():
    options = {"max_timesteps": 4, "return_sequences": True, "name": "rnn"}
    return one_layer(keras_norm.BatchNormSimpleRNN(5, **options, **LEARNED), masked=True)


@pytest.mark.parametrize("name", EXPORTS)
def test_a_file_has_the_outputs_of_the_model_for_sequences_and_for_steps(learned, name, tmp_path):
    """The exporters compare both with the model; golden cases store its outputs."""
    assert verify(EXPORTS[name](learned, tmp_path / name)) == []
