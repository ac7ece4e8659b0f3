"""A model of masked recurrent layers of three origins, and its files, which several tests share."""

import keras
import pytest

import keras_norm
from keras_norm.export import export_saved_model, export_tflite
from tests.export.own_layers import Decay
from tests.rnn import kinds


@pytest.fixture(scope="session")
def streamed():
    """Build a model with masked ids and masked features; no test changes it.

    Both inputs are masked, because the merge of one masked and one unmasked input has no mask. The
    layers are simple RNNs, because larger cells take seconds to trace.
    """
    ids = keras.Input((None,), dtype="int32", name="ids")
    features = keras.Input((None, 2), name="features")
    x = keras.layers.Embedding(7, 2, mask_zero=True)(ids)
    x = keras.layers.Add()([x, keras.layers.Masking()(features)])
    lower = keras_norm.LayerNormSimpleRNN(4, return_sequences=True, name="lower")(x)
    upper = keras_norm.BatchNormSimpleRNN(3, max_timesteps=4, name="upper")(lower)
    own = keras.layers.RNN(Decay(4), return_sequences=True, zero_output_for_mask=True, name="own")
    path, h = keras.layers.SimpleRNN(3, return_sequences=True, return_state=True, name="keras")(
        own(x)
    )
    outputs = {"tags": keras.layers.Dense(2)(lower), "y": upper, "path": path, "h": h}
    model = keras.Model([ids, features], outputs)
    kinds.randomize(model)
    kinds.randomize_statistics(model)
    return model


@pytest.fixture(scope="session")
def streamed_files(streamed, written):
    """Return the SavedModel and the TFLite file of this model, with the default of `step`."""
    return {
        "saved_model": written("streamed", lambda path: export_saved_model(streamed, path)),
        "tflite": written("streamed.tflite", lambda path: export_tflite(streamed, path)),
    }
