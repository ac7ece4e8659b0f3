"""`convert` names what it cannot convert, in one line."""

import keras
import numpy as np
import pytest

from keras_norm import convert
from tests.conversion.models import FEATURES, TIME, MyLSTM, nested, sequential


@keras.saving.register_keras_serializable(package="tests")
class LSTMInCode(keras.layers.Layer):
    """A layer whose code creates an LSTM."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.lstm = keras.layers.LSTM(2, name="lstm")
        self.supports_masking = True

    def build(self, input_shape):
        self.lstm.build(input_shape)

    def call(self, inputs):
        return self.lstm(inputs)


class Unserializable(keras.Model):
    """A subclassed model without get_config."""

    def __init__(self, units):
        super().__init__(name="unserializable")
        self.lstm = keras.layers.LSTM(units, name="lstm")

    def call(self, inputs):
        return self.lstm(inputs)


def unserializable():
    model = Unserializable(2)
    model(np.zeros((2, TIME, FEATURES)))
    return model


ERRORS = {
    "code of a class": (
        lambda: sequential(LSTMInCode(name="encoder")),
        {},
        r"'encoder/lstm' is created by the code of LSTMInCode\. Pass the layer to the .*\Z",
    ),
    "code of a class beside another layer": (
        lambda: sequential(
            keras.layers.LSTM(3, return_sequences=True, name="first"), LSTMInCode(name="encoder")
        ),
        {},
        r"or leave this layer out: where=\['first'\]\. See",
    ),
    "no get_config": (unserializable, {}, r"`get_config\(\)` (.*\Z|method, make sure)"),
    "no layer": (lambda: sequential(keras.layers.Dense(2)), {}, "has no layer to convert"),
    "subclass": (lambda: sequential(MyLSTM(2)), {}, "MyLSTM.* but not subclasses of these"),
    "norm": (nested, {"norm": "group"}, "norm must be 'layer', 'rms', 'batch', None"),
    "where": (nested, {"where": "decoder"}, "where='decoder' selects no layer"),
    "length": (nested, {"norm": "batch"}, "inputs is dynamic.* such as max_timesteps=100"),
    "length, of a cell": (
        nested,
        {"norm": "batch", "where": "first"},
        "a cell does not know the number.* such as max_timesteps=100",
    ),
    "reset_after": (
        lambda: sequential(keras.layers.GRU(2, reset_after=False)),
        {},
        "needs reset_after=True",
    ),
    "not built": (lambda: keras.Sequential([keras.layers.LSTM(2)]), {}, "is not built"),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_what_cannot_be_converted_is_named(case):
    make, options, message = case
    with pytest.raises(ValueError, match=message):
        convert(make(), verbose=False, **options)


@pytest.mark.parametrize("where", [3, ["last", None]])
def test_a_selector_of_another_type_is_refused(where):
    with pytest.raises(TypeError, match=r"where must be a name, .* Received: where=(3|None)\."):
        convert(nested(), where=where, verbose=False)


def test_an_empty_list_of_selectors_is_refused():
    with pytest.raises(ValueError, match="where must name at least one layer"):
        convert(sequential(keras.layers.LSTM(2)), where=[])


def test_the_error_of_a_layer_names_the_layer():
    with pytest.raises(ValueError, match="max_timesteps") as error:
        convert(nested(), "batch")
    assert error.value.__notes__ == ["The error is about LSTM 'both/forward_lstm'"]


def test_a_model_must_be_a_keras_model():
    with pytest.raises(TypeError, match=r"must be a keras\.Model. Received: LSTM"):
        convert(keras.layers.LSTM(2))
