"""A norm and a cell in files of their own work everywhere: docs/design/extend.md describes both."""

import pickle

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import export_tflite
from keras_norm.rnn.docstrings import documented_by_cell
from keras_norm.rnn.presets import create_presets
from tests.rnn import kinds
from tests.rnn.core.extensions import MeanNormalization, MixingLSTM, MixingLSTMCell

BATCH, TIME, FEATURES, UNITS = 5, 6, 5, 4
X = np.random.default_rng(0).normal(size=(BATCH, TIME, FEATURES)).astype("float32")


@pytest.mark.slow
def test_a_model_with_both_is_rebuilt_converted_and_exported_with_its_step(tmp_path):
    own = MixingLSTM(UNITS, MeanNormalization(), return_sequences=True, name="own")
    model = keras.Sequential([keras.Input((None, FEATURES)), own, keras.layers.LSTM(3)])
    model = keras_norm.convert(model, MeanNormalization(), verbose=False)
    kinds.randomize(model)
    assert type(model.layers[1].cell.recurrent_norm) is MeanNormalization
    assert type(model.get_layer("own")) is MixingLSTM
    with pytest.raises(ValueError, match="has no layer to convert"):
        keras_norm.to_keras(model)
    rebuilt = type(model).from_config(model.get_config(), {"MixingLSTM": MixingLSTM})
    rebuilt.set_weights(model.get_weights())
    kinds.assert_close(rebuilt(X), model(X), 1e-6)
    # The exporter compares the outputs of the sequences and of the steps with those of the model.
    exported = keras.Sequential([keras.Input((None, FEATURES)), model.get_layer("own")])
    export_tflite(exported, tmp_path / "model.tflite", step=True)


def test_the_line_in_the_list_of_layers_creates_the_presets_of_a_cell():
    documented = {"__doc__": keras_norm.NormLSTMCell.__doc__}
    cell = type("NormMixingCell", (MixingLSTMCell,), documented)
    layer = type("NormMixing", (MixingLSTM,), {"cell_class": cell, "keras_class": None})
    own = documented_by_cell(layer)
    classes = {cls.__name__: cls for cls in create_presets(own, __name__)}
    assert [*classes] == [
        f"{prefix}NormMixing{suffix}" for prefix in ("Layer", "Batch") for suffix in ("Cell", "")
    ]
    required = {"LayerNormMixing": {}, "BatchNormMixing": {"max_timesteps": 3}}
    for name, options in required.items():
        layer = classes[name](UNITS, **options)
        assert layer(X, training=True).shape == (BATCH, UNITS)
        assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()
        assert "epsilon: " in classes[name].__doc__
    assert pickle.loads(pickle.dumps(keras_norm.LayerNormLSTM)) is keras_norm.LayerNormLSTM
