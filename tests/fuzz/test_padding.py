import keras
import pytest

import keras_norm
from tests.fuzz.padding import reads_padding

layers = keras.layers

READING = {
    "convolution": lambda: layers.Conv1D(2, 3, padding="same"),
    "pooling": lambda: layers.GlobalMaxPooling1D(),
    "a norm without masks": lambda: layers.RMSNormalization(),
    "reversed sequence": lambda: layers.GRU(2, go_backwards=True, return_sequences=True),
    "last output, masked": lambda: layers.GRU(2, zero_output_for_mask=True),
}
NOT_READING = {
    "BatchNorm": lambda: keras_norm.BatchNormGRU(2, 3),
    "backward BatchNorm": lambda: keras_norm.BatchNormGRU(2, 3, go_backwards=True),
    "BatchNorm Bidirectional": lambda: layers.Bidirectional(keras_norm.BatchNormGRU(2, 3)),
    "Bidirectional": lambda: layers.Bidirectional(
        keras_norm.LayerNormGRU(2, return_sequences=True)
    ),
    "masked sequence": lambda: layers.GRU(2, zero_output_for_mask=True, return_sequences=True),
    "a norm with masks": lambda: keras_norm.RMSNormalization(),
    "mean": lambda: layers.GlobalAveragePooling1D(),
}


@pytest.mark.parametrize("name", [*READING, *NOT_READING])
@pytest.mark.filterwarnings("ignore:.*does not support masking:UserWarning")
def test_layers_that_read_padding_are_found_and_no_others(name):
    layer = (READING | NOT_READING)[name]()
    model = keras.Sequential([keras.Input((None, 3)), layers.Masking(), layer])
    assert reads_padding(model) == (name in READING)
