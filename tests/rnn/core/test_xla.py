"""The custom gradient compiled by XLA: each cell with a per-sample norm and a batch norm."""

import pytest
import tensorflow as tf

from keras_norm import LayerNormalization, TimestepBatchNormalization
from keras_norm.rnn.core import tensorflow_gradient
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, KINDS, LSTM, MASK, SIMPLE_RNN, TIME

pytestmark = pytest.mark.usefixtures("xla")
LAYER_NORM = LayerNormalization(epsilon=1e-3)
TIMESTEP = TimestepBatchNormalization(TIME - 1)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_per_sample_and_batch_norms_match_the_loop(kind):
    """The layer has dropout, a mask and initial states; the norms of its slots alternate."""
    norm = {slot: (TIMESTEP, LAYER_NORM)[k % 2] for k, slot in enumerate(kind.slots)}
    kinds.assert_compiled_equals_loop(
        lambda **compiled: kinds.build(
            kind, norm, dropout=0.3, recurrent_dropout=0.3, seed=3, **compiled
        ),
        kinds.cast(kinds.inputs()),
        kinds.cast(kinds.initial_states(kind)),
        MASK,
    )


def test_a_graph_of_dynamic_sizes_matches_the_loop():
    def run(layer):
        unknown = tf.TensorSpec([None, None, FEATURES], "float64")
        train = kinds.in_graph_if_compiled(
            layer, lambda x: kinds.train(layer, x), input_signature=[unknown]
        )
        return train(kinds.cast(kinds.inputs(5, 7)))

    kinds.assert_compiled_equals_loop(
        lambda **compiled: kinds.build(SIMPLE_RNN, TIMESTEP, return_sequences=False, **compiled),
        run=run,
    )


def test_one_half_of_the_batch_may_be_empty():
    """9 sequences are padded to two parts of 16."""
    for batch in (1, 9):
        kinds.assert_compiled_equals_loop(
            lambda **compiled: kinds.build(SIMPLE_RNN, LAYER_NORM, **compiled),
            kinds.cast(kinds.inputs(batch=batch)),
        )


def test_a_layer_in_a_compiled_caller_matches_the_loop():
    """`test_gradient.test_fit_matches_the_loop` compiles a model with batch norms."""

    def run(layer, x):
        return kinds.in_graph_if_compiled(
            layer, lambda x: kinds.train(layer, x, mask=MASK), jit_compile=True
        )(x)

    kinds.assert_compiled_equals_loop(
        lambda **compiled: kinds.build(LSTM, LAYER_NORM, **compiled),
        kinds.cast(kinds.inputs()),
        run=run,
    )


def test_stacked_layers_share_their_programs(monkeypatch):
    found, traced = set(), tensorflow_gradient.traced
    monkeypatch.setattr(tensorflow_gradient, "traced", lambda *of: found.add(of) or traced(*of))
    x = kinds.cast(kinds.inputs())
    for return_sequences in (True, True, False):
        norm = LayerNormalization(epsilon=0.3)  # an epsilon that no other test uses
        layer = kinds.build(SIMPLE_RNN, norm, return_sequences=return_sequences)
        kinds.train(layer, x)
    assert len(found) == 2
