"""Another loop in the place of a recurrent layer's own."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import keras_norm
from keras_norm.rnn.replaceable import Loop, replaced_loops

X = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")


def replaced(layer):
    """Every output is the state that it starts from, zeros."""
    zeros = Loop(
        lambda batch: [np.zeros((batch, 4), "float32")],
        lambda x, states, mask: (states[0],) * 3,
    )
    return replaced_loops({layer: zeros})


@pytest.fixture(scope="module")
def layer():
    layer = keras_norm.LayerNormGRU(4)
    layer.build(X.shape)
    return layer


def test_the_layer_runs_as_given_and_afterwards_as_before(layer):
    before = layer(X)
    with replaced(layer):
        assert (np.asarray(layer(X)) == 0).all()
    np.testing.assert_array_equal(layer(X), before)


def test_an_exception_gives_the_layer_its_loop_back(layer):
    before = layer(X)
    with pytest.raises(RuntimeError), replaced(layer):
        raise RuntimeError
    np.testing.assert_array_equal(layer(X), before)


def test_nothing_is_written_to_the_layer(layer):
    before = set(vars(layer))
    with replaced(layer):
        layer(X)
        assert set(vars(layer)) == before


def test_other_threads_run_the_layer_as_it_is(layer):
    before = layer(X)
    with replaced(layer), ThreadPoolExecutor(1) as pool:
        np.testing.assert_array_equal(pool.submit(layer, X).result(), before)
