"""The custom gradient compiled by XLA: per-sample and batch norms, static and dynamic sizes."""

import pytest
import tensorflow as tf

from keras_norm import LayerNormalization, TimestepBatchNormalization
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, GRU, LSTM, MASK, SIMPLE_RNN, TIME

pytestmark = pytest.mark.usefixtures("xla")
LAYER_NORM = LayerNormalization(epsilon=1e-3)
TIMESTEP = TimestepBatchNormalization(TIME - 1)


@pytest.mark.parametrize("kind", [LSTM, GRU], ids=str)
def test_per_sample_and_batch_norms_match_the_loop(kind):
    """The layer has dropout, a mask and initial states; the norms of its slots alternate."""
    norm = {slot: (TIMESTEP, LAYER_NORM)[k % 2] for k, slot in enumerate(kind.slots)}
    options = {"dropout": 0.3, "recurrent_dropout": 0.3, "seed": 3}
    kinds.assert_compiled_equals_loop(
        lambda **compiled: kinds.build(kind, norm, **options, **compiled),
        kinds.cast(kinds.inputs()),
        kinds.cast(kinds.initial_states(kind)),
        MASK,
    )


@pytest.mark.parametrize(
    ("norm", "batch"), [(TIMESTEP, 5), (LAYER_NORM, 9)], ids=["batch norm", "empty half"]
)
def test_a_graph_of_dynamic_sizes_matches_the_loop(norm, batch):
    """9 sequences are padded to two parts of 16."""

    def run(layer):
        unknown = tf.TensorSpec([None, None, FEATURES], "float64")
        train = kinds.in_graph_if_compiled(
            layer, lambda x: kinds.train(layer, x), input_signature=[unknown]
        )
        return train(kinds.cast(kinds.inputs(batch, 7)))

    kinds.assert_compiled_equals_loop(
        lambda **compiled: kinds.build(SIMPLE_RNN, norm, return_sequences=False, **compiled),
        run=run,
    )
